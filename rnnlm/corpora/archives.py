"""Members of tar and zip archives as streams, with their names checked. Nothing is unpacked to disk."""

import contextlib
import posixpath
import re
import stat
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from typing import IO, Literal

from rnnlm.config import CorpusConfig
from rnnlm.corpora.compression import ByteStream, Meter, Unpacked, damaged
from rnnlm.corpora.split_names import suffix_of
from rnnlm.corpora.text_encoding import printable
from rnnlm.errors import CorpusError

Member = tuple[str, ByteStream | None]  # name, and the bytes of a wanted regular file
TAR_MARK = slice(257, 262)
LINK_TARGET_BYTES = 4096
MAXIMUM_HEADER_BYTES = 1 << 20  # of long names and pax records, which tarfile reads into memory
HEADER_TYPES = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
SMALL_STEPS = {zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}  # zipfile inflates all that it reads of these at once


def archive_kind(head: bytes, name: str) -> Literal["tar", "zip"] | None:
    """The kind by the first bytes; a tar older than 1988 has no mark, so its name counts too."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    return "tar" if head[TAR_MARK] == b"ustar" or (suffix_of(name) == ".tar" and head) else None


class StrictMember(tarfile.TarInfo):
    """Refuses damaged, truncated and oversized headers, where tarfile ends silently or reads any length."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "StrictMember":
        member = super().frombuf(buf, encoding, errors)
        if member.size < 0:
            raise tarfile.ReadError("a member with a negative size")
        if member.type in HEADER_TYPES and member.size > MAXIMUM_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {member.size:,} bytes")
        return member

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> "StrictMember":
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"header at byte {archive.offset}: {error}") from error


def tar_members(
    stream: ByteStream, label: str, meter: Meter, config: CorpusConfig, wanted: Collection[str]
) -> Iterator[Member]:
    """(name, stream) of each regular member in archive order; the stream is None unless the name is in `wanted`.

    Checks every member, skips links that stay inside, and reads the archive to its end.
    """
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(
                tarfile.open(fileobj=stream, mode="r|", tarinfo=StrictMember)  # type: ignore[arg-type]
            )
        except CorpusError:
            raise
        except Exception as error:  # tarfile raises many types on damaged data
            raise damaged(label, "tar", error) from error
        for count in range(config.maximum_archive_members + 1):
            info = next_member(archive, label)
            if info is None:
                break
            if count == config.maximum_archive_members:
                raise CorpusError(too_many(label, config))
            member = f"{label}: {printable(info.name)}"
            refuse_name(info.name, member)
            if info.issym() or info.islnk():
                base = posixpath.dirname(info.name) if info.issym() else ""
                refuse_link(base, info.linkname, member)
            elif info.isdev():
                raise CorpusError(f"{member}: is a device or a pipe; give an archive that holds only files")
            elif info.isfile():
                content = archive.extractfile(info) if info.name in wanted else None
                yield info.name, Unpacked(content, "tar", member, meter) if content else None
        while stream.read(1 << 20):  # up to the checksum of the compression
            pass


def next_member(archive: tarfile.TarFile, label: str) -> tarfile.TarInfo | None:
    try:
        return archive.next()
    except CorpusError:
        raise
    except Exception as error:
        raise damaged(label, "tar", error) from error


def zip_members(
    file: IO[bytes], label: str, meter: Meter, config: CorpusConfig, wanted: Collection[str]
) -> Iterator[Member]:
    """(name, stream) of each regular member, sorted by name; the stream is None unless the name is in `wanted`."""
    try:
        archive = zipfile.ZipFile(file)
    except Exception as error:  # zipfile raises many types on damaged data
        raise damaged(label, "zip", error) from error
    members = archive.infolist()
    if len(members) > config.maximum_archive_members:
        raise CorpusError(too_many(label, config))
    with archive:
        for info in sorted(members, key=lambda info: info.filename):
            member = f"{label}: {printable(info.filename)}"
            refuse_name(info.filename, member)
            if info.flag_bits & 1:
                raise CorpusError(f"{member}: is encrypted; decrypt the archive first")
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind == stat.S_IFLNK:
                target = zip_stream(archive, info, member, meter).read(LINK_TARGET_BYTES)
                refuse_link(posixpath.dirname(info.filename), target.decode("utf-8", "replace"), member)
            elif kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
                raise CorpusError(f"{member}: is a device or a pipe; give an archive that holds only files")
            elif not info.is_dir():
                stream = zip_stream(archive, info, member, meter) if info.filename in wanted else None
                yield info.filename, stream


def zip_stream(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str, meter: Meter) -> ByteStream:
    try:
        content = archive.open(info)
    except Exception as error:
        raise damaged(label, "zip", error) from error
    return Unpacked(content, "zip", label, meter, step=4096 if info.compress_type in SMALL_STEPS else 1 << 20)


def refuse_name(name: str, label: str) -> None:
    """Refuse names that leave the archive: it is malicious, even though no member is written under its name."""
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[/\\]", name):
        raise CorpusError(f"{label}: has an absolute path; such an archive is not trusted")
    if ".." in re.split(r"[/\\]", name):
        raise CorpusError(f"{label}: has .. in its path; such an archive is not trusted")


def refuse_link(base: str, target: str, label: str) -> None:
    reached = posixpath.normpath(posixpath.join(base, target))
    if target.startswith(("/", "\\")) or reached.startswith(".."):
        raise CorpusError(
            f"{label}: is a link that leaves the archive (to {printable(target)}); such an archive is not trusted"
        )


def too_many(label: str, config: CorpusConfig) -> str:
    return f"{label}: has more than {config.maximum_archive_members:,} members (corpus.maximum_archive_members)"
