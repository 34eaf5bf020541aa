"""Access to the files of a source and to the members of its archives, decompressed and within the configured limits."""

import contextlib
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rnnlm.config import CorpusConfig
from rnnlm.corpora.archives import archive_members
from rnnlm.corpora.compression import Meter, OpenFile, decompressed
from rnnlm.corpora.format_detection import archive_kind
from rnnlm.corpora.printable_names import printable, unreadable
from rnnlm.errors import CorpusError


@dataclass(frozen=True)
class SourceFile:
    """A file on disk, its name in messages, and the name that determines its format."""

    path: Path
    label: str
    name: str


class Opener:
    """An opener of the files of one source, which counts the unpacked bytes of the wanted files."""

    def __init__(self, config: CorpusConfig, scratch: Path) -> None:
        """Prepare to open files. `scratch` is a folder for temporary files."""
        self.config, self.scratch = config, scratch
        self.unpacked_bytes = 0

    @contextlib.contextmanager
    def outermost(self, file: SourceFile) -> Iterator[OpenFile]:
        """Open a file, and decompress it if it is compressed. Members of archives are not opened."""
        with contextlib.ExitStack() as stack:
            try:
                meter = Meter(file.path.stat().st_size, self.config, self.unpacked_bytes)
                raw = stack.enter_context(file.path.open("rb", buffering=0))
                opened = decompressed(raw, file.name, file.label, meter)
            except OSError as error:
                raise unreadable(file.label, error) from error
            yield opened

    def members(self, file: SourceFile, wanted: Collection[str]) -> Iterator[tuple[str, OpenFile | None]]:
        """Yield ("", file) for an ordinary file, and (name, member) for each member of an archive.

        The member is None if its name is not in `wanted`.
        """
        with self.outermost(file) as opened:
            kind = archive_kind(opened.head, opened.plain_name)
            if kind is None:
                yield "", opened
                self.unpacked_bytes += opened.meter.unpacked_bytes if wanted else 0
                return
            if kind == "zip" and not opened.seekable():
                raise CorpusError(
                    f"{file.label}: a zip inside a compressed file is not read; decompress the file and give the zip"
                )
            meter = Meter(opened.meter.packed_bytes, self.config, self.unpacked_bytes)
            for name, content in archive_members(opened, kind, file.label, meter, self.config, wanted):
                label = f"{file.label}: {printable(name)}"
                member = None if content is None else decompressed(content, name, label, meter)
                if member is not None and archive_kind(member.head, member.plain_name):
                    raise CorpusError(
                        f"{member.label}: is an archive inside an archive; unpack the outer archive and give the folder"
                    )
                yield name, member
            self.unpacked_bytes += meter.unpacked_bytes if wanted else 0

    @contextlib.contextmanager
    def seekable(self, stream: OpenFile) -> Iterator[IO[bytes]]:
        """Yield the stream, or a temporary file with its content if it is not seekable.

        A reader of Parquet files needs a seekable file, because their index is at the end.
        """
        if stream.seekable():
            yield stream
            return
        with tempfile.TemporaryFile(dir=self.scratch) as file:
            shutil.copyfileobj(stream, file, 1 << 20)
            yield file
