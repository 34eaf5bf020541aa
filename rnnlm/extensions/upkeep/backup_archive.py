"""The file of a backup, a tar archive with an rnnlm home's files and a manifest.

Each archive is self-contained and written once. `tar -x` can also unpack it. The manifest has the position of every
file, so that files after a damaged one can still be found. It is stored twice, and the last lines of the archive
contain the positions of both copies.
"""

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from rnnlm.errors import HomeError
from rnnlm.storage.records import Record

FORMAT = 2
MANIFEST = "MANIFEST.json"
SUFFIX = ".rnnlm-backup.tar"
TRAILER = re.compile(rb"rnnlm-backup (\d{20}) (\d{20}) (\d{20}) ([0-9a-f]{64})\n")
TRAILER_COPIES = 4
READ_BYTES = 1 << 20
LARGEST_MANIFEST_BYTES = 1 << 28  # The largest size of a manifest in bytes, which suffices for a million files.


class DamagedFileError(HomeError):
    """The exception that is raised if a file of an archive differs from its sha256 or cannot be read."""


class BackedUpFile(Record):
    sha256: str
    bytes: int
    offset: int  # The position of the file's first byte in the archive.


class Manifest(Record):
    format: int
    homes: tuple[Path, ...]  # The paths of the rnnlm home. Each path in its databases begins with one of them.
    made: str  # The time of the backup in ISO 8601, UTC.
    rnnlm: str  # The version of rnnlm that made the backup.
    versions: tuple[str, ...]  # The registered versions, such as NAME/3.
    damaged: tuple[str, ...]  # Descriptions of files that were damaged before the backup.
    files: dict[str, BackedUpFile]  # The files by their paths in the rnnlm home.


class HashingReader:
    """A reader that gives tarfile exactly `size` bytes and hashes them.

    If the file is shorter, the bytes are followed by zeros.
    """

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.stream, self.left, self.digest, self.whole = stream, size, hashlib.sha256(), True

    def read(self, size: int = -1) -> bytes:
        wanted = self.left if size < 0 else min(size, self.left)
        data = self.stream.read(wanted)
        if len(data) < wanted:
            self.whole, data = False, data.ljust(wanted, b"\0")
        self.left -= wanted
        self.digest.update(data)
        return data


class ArchiveWriter:
    """A writer that appends files to a new archive."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.tar = tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)
        self.files: dict[str, BackedUpFile] = {}

    def add(self, name: str, path: Path) -> BackedUpFile | None:
        """Append a file. If it becomes shorter while it is read, return None and do not list it in the manifest."""
        with path.open("rb") as source:
            size = path.stat().st_size
            reader = HashingReader(source, size)
            offset = self.append(name, size, reader)
        if not reader.whole:
            return None
        self.files[name] = BackedUpFile(sha256=reader.digest.hexdigest(), bytes=size, offset=offset)
        return self.files[name]

    def append(self, name: str, size: int, reader: "HashingReader | io.BytesIO") -> int:
        """Append a file, and return the position of its first byte."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        self.tar.addfile(info, reader)  # type: ignore[arg-type]
        blocks = -(-size // tarfile.BLOCKSIZE)
        return self.stream.tell() - blocks * tarfile.BLOCKSIZE

    def close(self, manifest: Manifest) -> None:
        data = manifest.model_dump_json(indent=1).encode()
        first, second = (self.append(MANIFEST, len(data), io.BytesIO(data)) for _ in range(2))
        self.tar.close()
        line = f"rnnlm-backup {first:020d} {second:020d} {len(data):020d} {hashlib.sha256(data).hexdigest()}\n"
        self.stream.write(line.encode() * TRAILER_COPIES)


def read_manifest(archive: Path) -> Manifest:
    """Read the manifest.

    Raise HomeError if the file is not a backup, if it was truncated, or if both copies of the manifest are damaged.
    """
    if archive.is_dir():
        raise HomeError(f"{archive}: is a folder, expected the file of a backup; {listed(archive)}")
    if archive.exists() and not archive.is_file():
        raise HomeError(f"{archive}: is a device or a pipe, expected the file of a backup")
    try:
        with archive.open("rb") as stream:
            length = stream.seek(0, io.SEEK_END)
            stream.seek(max(0, length - 4096))
            for match in TRAILER.finditer(stream.read()):
                for offset in (int(match[1]), int(match[2])):
                    stream.seek(offset)
                    data = stream.read(min(int(match[3]), LARGEST_MANIFEST_BYTES))
                    if hashlib.sha256(data).hexdigest() == match[4].decode():
                        return Manifest.model_validate_json(data)
    except ValidationError as error:
        raise HomeError(
            f"{archive}: the format of the backup is not {FORMAT}; use the version of rnnlm that made it"
        ) from error
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HomeError(f"{archive}: cannot be read ({reason}); give the file that rnnlm backup wrote") from error
    raise HomeError(
        f"{archive}: not a complete backup: it was cut off, its manifest is damaged, or it is a different file.\n"
        "Restore another backup. `tar -xf` unpacks what can be read of this one."
    )


def listed(folder: Path) -> str:
    names = sorted(path.name for path in folder.glob(f"*{SUFFIX}"))
    if (folder / MANIFEST).exists():
        return "it is a backup of rnnlm 0.3 or older;\nrestore it with that version"
    return f"its last backups are\n{', '.join(names[-5:])}" if names else "it has no backup"


def pieces_of(archive: Path, file: BackedUpFile) -> Iterator[bytes]:
    """Yield the bytes of a file in parts. After the last part, raise DamagedFileError if the sha256 differs."""
    digest, left = hashlib.sha256(), file.bytes
    try:
        with archive.open("rb") as stream:
            stream.seek(file.offset)
            while left and (data := stream.read(min(READ_BYTES, left))):
                left -= len(data)
                digest.update(data)
                yield data
    except OSError as error:  # The disk cannot read this part of the archive. Other files may still be readable.
        raise DamagedFileError(f"{archive}: cannot be read ({error.strerror})") from error
    if digest.hexdigest() != file.sha256:
        raise DamagedFileError(f"{archive}: a file in it differs from its sha256")


def find_archive_damage(archive: Path, manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the files that differ from their sha256."""
    damaged = []
    for name, file in manifest.files.items():
        try:
            for _ in pieces_of(archive, file):
                pass
        except DamagedFileError:
            damaged.append(name)
    return tuple(damaged)
