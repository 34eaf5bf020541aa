"""Members of tar and zip archives as streams, with their names checked. Nothing is unpacked to disk."""

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

Member = tuple[str, Unpacked | None]  # name, and the bytes of a wanted regular file
LINK_TARGET_BYTES = 4096
MAXIMUM_HEADER_BYTES = 1 << 20  # of long names and pax records, which tarfile reads into memory
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
    """An entry of an archive before it is checked."""

    name: str
    kind: Literal["file", "folder", "link", "device"]
    open: Callable[[], Any]  # the bytes of a file; called before the next entry is read
    target: str = ""  # of a link, from the top of the archive


def archive_members(
    file: IO[bytes],
    kind: Literal["tar", "zip"],
    label: str,
    meter: Meter,
    config: CorpusConfig,
    wanted: Collection[str],
) -> Iterator[Member]:
    """Yield (name, stream) of each regular file. The stream is None unless the name is in `wanted`.

    Links that stay inside are skipped. Raise CorpusError for names and links that leave the archive.
    """
    entries = tar_entries(file, label) if kind == "tar" else zip_entries(file, label)
    for count, entry in enumerate(entries):
        if count == config.maximum_archive_members:
            raise CorpusError(
                f"{label}: has more than {config.maximum_archive_members:,} members (corpus.maximum_archive_members)"
            )
        member = f"{label}: {printable(entry.name)}"
        if reason := distrust(entry):
            raise CorpusError(f"{member}: {reason}; such an archive is not trusted")
        if entry.kind == "device":
            raise CorpusError(f"{member}: is a device or a pipe; give an archive that holds only files")
        if entry.kind == "file":
            with damage_explained(member, kind):
                stream = Unpacked(entry.open(), kind, member, meter) if entry.name in wanted else None
            yield entry.name, stream


def distrust(entry: ArchiveEntry) -> str | None:
    """Return how a name or link leaves the archive.

    It is malicious, even though no member is written under its name.
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
    """Refuses damaged, truncated and oversized headers, where tarfile ends silently or reads any length."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Check a header that was read.

        This is tarfile's hook for subclasses. Later releases of Python 3.13 read no header through frombuf.
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
    """Yield the entries in archive order. The stream is read to its end, where a compression has its checksum."""
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
    """Yield the entries, sorted by name. Raise CorpusError if one is encrypted."""
    with damage_explained(label, "zip"), zipfile.ZipFile(file) as archive:
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if info.flag_bits & 1:
                raise CorpusError(f"{label}: {printable(info.filename)}: is encrypted; decrypt the archive first")
            name = info.filename.replace("\\", "/")  # some programs of Windows divide folders so
            content = partial(archive.open, info)
            mode = stat.S_IFMT(info.external_attr >> 16)
            if mode == stat.S_IFLNK:
                target = content().read(LINK_TARGET_BYTES).decode("utf-8", "replace")
                yield ArchiveEntry(name, "link", content, posixpath.join(posixpath.dirname(name), target))
            elif mode in ZIP_DEVICES:
                yield ArchiveEntry(name, "device", content)
            else:
                yield ArchiveEntry(name, "folder" if name.endswith("/") else "file", content)
