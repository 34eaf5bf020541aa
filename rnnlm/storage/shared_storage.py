"""Shared storage, such as S3, to which finished folders are copied and from which other machines fetch them.

The environment variable RNNLM_STORAGE contains its address, which is s3://bucket/prefix or any other address of
pyarrow.fs. Credentials, region and endpoint are configured as for the AWS tools (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
…). If RNNLM_STORAGE is not set, nothing is copied.

A folder has the same name in the storage as in the rnnlm home. Its COMPLETE marker is written last. A folder without a
marker is unfinished, and is written again. The files are in a subfolder that is named by the digest of the marker.
Hence two machines that write the same folder at the same time do not mix their files.
"""

import functools
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from rnnlm.errors import HomeError
from rnnlm.storage.contained_paths import UnsafeNameError, inside
from rnnlm.storage.disk_errors import read_with_retries
from rnnlm.storage.home import PLACES, file_digest
from rnnlm.storage.redaction import redacted

logger = logging.getLogger(__name__)
VARIABLE = "RNNLM_STORAGE"
STORED_FOLDERS = tuple(place.name for place in PLACES if place.stored)
COMPLETE = "COMPLETE"  # The marker of a finished folder, a JSON object with the sha256 of each file.
LOCAL = fs.LocalFileSystem()


class Storage:
    """The folders below an address of the shared storage.

    In the methods, `name` is the path of a folder in an rnnlm home, such as datasets/0123456789abcdef.
    """

    def __init__(self, address: str) -> None:
        self.address = redacted(address)
        with self.errors_explained():
            self.files, self.root = fs.FileSystem.from_uri(address)

    def holds(self, name: str) -> bool:
        """Return True if the folder is stored and complete."""
        with self.errors_explained():
            return bool(self.files.get_file_info(f"{self.root}/{name}/{COMPLETE}").type == fs.FileType.File)

    def fetch(self, name: str, folder: Path) -> bool:
        """Copy the files of a complete folder to the local `folder`. Return False if the folder is not stored.

        The marker, which lists the files, is copied first. A missing file is skipped. If the marker is damaged, no
        files are copied.
        """
        if not self.fetch_file(f"{name}/{COMPLETE}", folder / COMPLETE):
            return False
        try:
            files = read_marker(folder)
        except ValueError:
            return True  # The caller verifies the folder and finds the damaged marker.
        for file in files:
            self.fetch_file(f"{files_of(name, folder)}/{file}", inside(folder, file))
        logger.info("%s: copied from %s", name, self.address)
        return True

    def fetch_file(self, name: str, path: Path) -> bool:
        """Copy one file to the local `path`. Return False if it is not stored."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.errors_explained():
            try:
                self.copy(f"{self.root}/{name}", path, to_storage=False)
            except FileNotFoundError:
                return False
        return True

    def store(self, name: str, folder: Path) -> None:
        """Copy a complete local folder to the shared storage.

        The user may have replaced files by links, for instance to a larger disk.
        """
        for file in read_marker(folder):
            self.store_file(f"{files_of(name, folder)}/{file}", inside(folder, file, any_links=True))
        self.store_file(f"{name}/{COMPLETE}", folder / COMPLETE)
        logger.info("%s: copied to %s", name, self.address)

    def store_file(self, name: str, path: Path) -> None:
        """Copy one local file to the shared storage."""
        target = f"{self.root}/{name}"
        with self.errors_explained():
            self.files.create_dir(target.rpartition("/")[0], recursive=True)
            self.copy(target, path, to_storage=True)

    def forget(self, name: str) -> None:
        """Remove a folder's marker from the shared storage, so that the folder is written again."""
        # Another machine may already have removed the marker.
        with self.errors_explained(), suppress(FileNotFoundError):
            self.files.delete_file(f"{self.root}/{name}/{COMPLETE}")

    def copy(self, stored: str, local: Path, *, to_storage: bool) -> None:
        (source, here), (target, there) = (str(local), LOCAL), (stored, self.files)
        if not to_storage:
            (source, here), (target, there) = (target, there), (source, here)
        fs.copy_files(source, target, source_filesystem=here, destination_filesystem=there)

    @contextmanager
    def errors_explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0][:300]
            raise HomeError(
                f"{VARIABLE}={self.address}: {reason};\ncheck address, network and credentials, or unset {VARIABLE}"
            ) from error


def read_marker(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file in the folder's COMPLETE marker. Each name leads to a path inside the folder.

    Compiled modules in markers of rnnlm 0.3 are left out, because Python rewrites them when a file is moved. Raise one
    of ABSENT if the marker is missing, and ValueError with a description if it is damaged.
    """
    try:
        digests = json.loads(read_with_retries(folder / COMPLETE, Path.read_bytes))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{COMPLETE} is not JSON") from error
    if not isinstance(digests, dict):
        raise ValueError(f"{COMPLETE} is not a JSON object")
    for name in digests:
        try:
            # The user may have replaced files by links, for instance to a larger disk.
            inside(folder, name, any_links=True)
        except UnsafeNameError as error:
            raise ValueError(f"{COMPLETE} names {ascii(name)[:80]}, which is not a file in this folder") from error
    return {name: digest for name, digest in digests.items() if not is_compiled(name)}


def is_compiled(name: str) -> bool:
    """Return True for the name of a compiled module, which Python writes next to a module that it imports."""
    return name.endswith(".pyc") or "__pycache__/" in name


def files_of(name: str, folder: Path) -> str:
    """Return the path in the shared storage under which the files of a local folder are stored."""
    return f"{name}/{file_digest(folder / COMPLETE)[:16]}"


@functools.cache
def storage_at(address: str) -> Storage:
    return Storage(address)


def find_storage() -> Storage | None:
    """Return the shared storage at RNNLM_STORAGE, or None if it is not set. Raise HomeError if it cannot be reached."""
    address = os.environ.get(VARIABLE)
    return storage_at(address) if address else None


def place_in_storage(folder: Path) -> str | None:
    """Return the name of a folder of the rnnlm home in the shared storage, or None if it is not stored there."""
    kind = folder.parent.name
    return f"{kind}/{folder.name}" if kind in STORED_FOLDERS else None
