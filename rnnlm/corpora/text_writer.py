"""Writers of the text of a corpus.

The text of each role, which is a split or "text", is written to a file, with its digest and an index of its sources.
"""

import hashlib
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from rnnlm.config import CorpusConfig
from rnnlm.corpora.cleaning import cleaned
from rnnlm.corpora.line_breaking import LINE_CHARACTERS, LineBreaker
from rnnlm.corpora.printable_names import printable
from rnnlm.corpora.text_changes import Part
from rnnlm.errors import CorpusError, HomeError
from rnnlm.storage.records import SPLITS

logger = logging.getLogger(__name__)


class RoleFile:
    """The file of a split or of the whole text while it is written, and the index of its sources (source_index.py).

    Text that consists of white space belongs to the source before it.
    """

    def __init__(self, folder: Path, role: str) -> None:
        self.path, self.index_path = folder / f"{role}.txt", folder / f"{role}.sources"
        self.text_hash, self.index_hash, self.source_hash = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
        self.byte_count = self.source_begin = self.source_count = 0
        self.any_text = False  # True if the current source has text other than white space.

    def write(self, data: bytes, stream: BinaryIO) -> None:
        """Write text that belongs to the current source."""
        try:
            stream.write(data)
        except OSError as error:
            raise HomeError(f"{self.path}: cannot be written ({error.strerror}); free some space") from error
        self.text_hash.update(data)
        self.source_hash.update(data)
        self.byte_count += len(data)
        self.any_text = self.any_text or bool(data.strip())

    def end_source(self, index: BinaryIO) -> None:
        if self.any_text:
            begin = self.source_begin if self.source_count else 0
            entry = struct.pack("<Q", begin) + self.source_hash.digest()[:8]
            index.write(entry)
            self.index_hash.update(entry)
            self.source_count += 1
        self.source_begin, self.any_text, self.source_hash = self.byte_count, False, hashlib.sha256()


class CorpusWriter:
    """A writer of cleaned text to the files of a folder."""

    def __init__(self, folder: Path, config: CorpusConfig) -> None:
        self.folder, self.config = folder, config
        self.roles: dict[str, RoleFile] = {}
        self.any_text = False  # True if any source has text other than white space.
        self.parts: list[Part] = []

    def append(self, role: str, pieces: Iterator[str], label: str, *, rows: bool = False) -> None:
        """Append the text of a source to the role's file, with a line feed at the end.

        If `rows` is true, each piece is a table row that ends with a line feed. Each row is a separate source.
        """
        file = self.roles.setdefault(role, RoleFile(self.folder, role))
        breaker = LineBreaker()
        last = b"\n"
        begin, digest = file.byte_count, hashlib.sha256()
        with file.path.open("ab") as text, file.index_path.open("ab") as index:
            try:
                for piece in cleaned(breaker(pieces), self.config):
                    data = piece.encode()
                    file.write(data, text)
                    digest.update(data)
                    self.any_text = self.any_text or not (piece.isspace() or not piece)
                    last = data[-1:] or last
                    if rows:
                        file.end_source(index)
            finally:  # The file is also completed after an error, because the inspection reads it.
                if last != b"\n":
                    file.write(b"\n", text)
                file.end_source(index)
        count = file.byte_count - begin
        part = Part(label=printable(label), role=role, begin=begin, byte_count=count, digest=digest.hexdigest()[:16])
        self.parts.append(part)
        if breaker.breaks:
            logger.warning(
                "%s: lines of more than %s characters were broken %s times; give text with line ends to avoid this",
                label,
                f"{LINE_CHARACTERS:,}",
                f"{breaker.breaks:,}",
            )

    @property
    def corpus_bytes(self) -> int:
        return sum(file.byte_count for file in self.roles.values())

    @property
    def files(self) -> dict[str, str]:
        """Return the name of the text file of each role, which is a split or "text"."""
        return {role: file.path.name for role, file in self.roles.items()}

    @property
    def digests(self) -> dict[str, str]:
        return {role: file.text_hash.hexdigest() for role, file in sorted(self.roles.items())}

    @property
    def source_counts(self) -> dict[str, int]:
        """Return the number of files, archive members and table rows together, for each split or "text"."""
        return {role: file.source_count for role, file in sorted(self.roles.items())}

    @property
    def written(self) -> list[Path]:
        """All written files, including the index files of texts with several sources."""
        indexes = [file.index_path for file in self.roles.values() if file.source_count > 1]
        return [file.path for file in self.roles.values()] + indexes

    @property
    def digest(self) -> str:
        """The sha256 of the text if there is a single source.

        Otherwise it is the sha256 of a list with the name, the text digest and the index digest of each split or
        "text".
        """
        if self.source_counts.get("text") == 1:
            return self.digests["text"]
        lines = ""
        for role in ("text", *SPLITS):
            if role in self.roles:
                index = self.roles[role].index_hash.hexdigest() if self.source_counts[role] > 1 else ""
                lines += f"{role} {self.digests[role]} {index}".rstrip() + "\n"
        return hashlib.sha256(lines.encode()).hexdigest()

    def refuse_emptiness(self, source: str) -> None:
        if not self.any_text:
            raise CorpusError(f"{source}: is empty; expected text")
