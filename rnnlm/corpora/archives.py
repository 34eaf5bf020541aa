"""Readers of tar and zip archives, which yield each member as a stream after checking its name.

Nothing is unpacked to disk.
"""

import posixpath
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Literal

from rnnlm.config import CorpusConfig
from rnnlm.corpora.compression import Meter, Unpacked, damage_explained
from rnnlm.corpora.printable_names import printable
from rnnlm.errors import CorpusError

Member = tuple[str, Unpacked | None]  # The name of a regular file, and its content if the file is wanted.
LINK_TARGET_BYTES = 4096
# The largest size of a header with long names or pax records, which tarfile reads into memory.
MAXIMUM_HEADER_BYTES = 1 << 20
HEADER_TYPES = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
ZIP_DEVICES = {stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK}


@dataclass(frozen=True)
class ArchiveEntry:
    """An entry of an archive whose name has not been checked yet."""

    name: str
    kind: Literal["file", "folder", "link", "device"]
    # A function that returns the bytes of the entry. It must be called before the next entry is read.
    open: Callable[[], Any]
    target: str = ""  # The target of a link, relative to the top of the archive, or "" for other entries.


def archive_members(
    file: IO[bytes],
    kind: Literal["tar", "zip"],
    label: str,
    meter: Meter,
    config: CorpusConfig,
    wanted: Collection[str],
) -> Iterator[Member]:
    """Yield the name of each regular file and, if the name is in `wanted`, a stream of its content.

    The stream of other files is None. Links to places inside the archive are skipped. Raise CorpusError for names and
    links that lead outside the archive.
    """
    entries = tar_entries(file, label) if kind == "tar" else zip_entries(file, label)
    for count, entry in enumerate(entries):
        if count == config.maximum_archive_members:
            raise CorpusError(
                f"{label}: has more than {config.maximum_archive_members:,} members; "
                "if you trust the archive, raise corpus.maximum_archive_members"
            )
        member = f"{label}: {printable(entry.name)}"
        if reason := distrust(entry):
            raise CorpusError(f"{member}: {reason}, so the archive is not trusted; unpack it and give the folder")
        if entry.kind == "device":
            raise CorpusError(f"{member}: is a device or a pipe; give an archive that contains only files")
        if entry.kind == "file":
            with damage_explained(member, kind):
                stream = Unpacked(entry.open(), kind, member, meter) if entry.name in wanted else None
            yield entry.name, stream


def distrust(entry: ArchiveEntry) -> str | None:
    """Return the reason if the name or link of an entry leads outside the archive, otherwise None.

    An archive with such a name is malicious, and is refused although no member is written to disk under its name.
    """
    if is_absolute(entry.name):
        return "has an absolute path"
    if ".." in re.split(r"[/\\]", entry.name):
        return "has .. in its path"
    if entry.kind == "link" and (is_absolute(entry.target) or posixpath.normpath(entry.target).startswith("..")):
        return f"is a link that leaves the archive (to {printable(entry.target)})"
    return None


def is_absolute(name: str) -> bool:
    return name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[/\\]", name) is not None


class StrictMember(tarfile.TarInfo):
    """A tar header that raises an error if it is damaged, truncated or too large.

    tarfile itself would end silently at such a header, or would read any number of bytes into memory.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Check a header after it was read.

        tarfile calls this method for each header. Since Python 3.13.5 it no longer calls frombuf, so a check in frombuf
        would be skipped.
        """
        if self.size < 0:
            raise tarfile.ReadError("a member with a negative size")
        if self.type in HEADER_TYPES and self.size > MAXIMUM_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> "StrictMember":
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"header at byte {archive.offset}: {error}") from error


def tar_entries(stream: IO[bytes], label: str) -> Iterator[ArchiveEntry]:
    """Yield the entries in the order of the archive.

    The stream is read to its end, so that the checksum at the end of compressed data is verified.
    """
    with damage_explained(label, "tar"), tarfile.open(fileobj=stream, mode="r|", tarinfo=StrictMember) as archive:
        for info in archive:
            content = partial(archive.extractfile, info)
            if info.issym() or info.islnk():
                folder = posixpath.dirname(info.name) if info.issym() else ""
                yield ArchiveEntry(info.name, "link", content, posixpath.join(folder, info.linkname))
            else:
                yield ArchiveEntry(
                    info.name, "device" if info.isdev() else "file" if info.isfile() else "folder", content
                )
        while stream.read(1 << 20):
            pass


def zip_entries(file: IO[bytes], label: str) -> Iterator[ArchiveEntry]:
    """Yield the entries sorted by name. Raise CorpusError if an entry is encrypted."""
    with damage_explained(label, "zip"), zipfile.ZipFile(file) as archive:
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if info.flag_bits & 1:
                raise CorpusError(f"{label}: {printable(info.filename)}: is encrypted; decrypt the archive first")
            # Backslashes are replaced, because some Windows programs separate folders by them.
            name = info.filename.replace("\\", "/")
            content = partial(archive.open, info)
            mode = stat.S_IFMT(info.external_attr >> 16)
            if mode == stat.S_IFLNK:
                target = content().read(LINK_TARGET_BYTES).decode("utf-8", "replace")
                yield ArchiveEntry(name, "link", content, posixpath.join(posixpath.dirname(name), target))
            elif mode in ZIP_DEVICES:
                yield ArchiveEntry(name, "device", content)
            else:
                yield ArchiveEntry(name, "folder" if name.endswith("/") else "file", content)
