"""Shared storage, such as S3: finished folders are copied there, and another machine takes them from there.

RNNLM_STORAGE names it: s3://bucket/prefix, or any other address of pyarrow.fs. Credentials, region and endpoint are
those of the AWS tools (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …). Without it nothing is copied.

A stored folder holds the same files under the same name as in the home. Its COMPLETE marker is written last, so a
folder without one is unfinished and is written again. Folders are named by digests of what they depend on. Two machines
that write the same one at once may mix their files; the digests in the marker then show that it is damaged.
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
from rnnlm.redaction import redacted

logger = logging.getLogger(__name__)
VARIABLE = "RNNLM_STORAGE"
KINDS = ("corpora", "tokenizers", "datasets", "runs")  # folders of a home whose entries are stored
COMPLETE = "COMPLETE"  # marker of a finished folder: JSON, file name → sha256
LOCAL = fs.LocalFileSystem()


class Storage:
    """Folders below an address; `name` is a folder's place in a home, such as datasets/0123456789abcdef."""

    def __init__(self, address: str) -> None:
        self.address = redacted(address)
        with self.errors_explained():
            self.files, self.root = fs.FileSystem.from_uri(address)

    def holds(self, name: str) -> bool:
        """True if the folder is stored and complete."""
        with self.errors_explained():
            return bool(self.files.get_file_info(f"{self.root}/{name}/{COMPLETE}").type == fs.FileType.File)

    def fetch(self, name: str, folder: Path) -> None:
        """Copy a complete folder's files to the local `folder`, the marker first: it names the others.

        A file that is missing is left out.
        """
        with self.errors_explained():
            self.copy(f"{self.root}/{name}/{COMPLETE}", folder / COMPLETE, to_storage=False)
            for file in json.loads((folder / COMPLETE).read_bytes()):
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    self.copy(f"{self.root}/{name}/{file}", folder / file, to_storage=False)
        logger.info("%s: copied from %s", name, self.address)

    def store(self, name: str, folder: Path) -> None:
        """Copy a complete local folder."""
        with self.errors_explained():
            files = json.loads((folder / COMPLETE).read_bytes())
            for file in (*files, COMPLETE):  # the marker last
                target = f"{self.root}/{name}/{file}"
                self.files.create_dir(target.rpartition("/")[0], recursive=True)
                self.copy(target, folder / file, to_storage=True)
        logger.info("%s: copied to %s", name, self.address)

    def forget(self, name: str) -> None:
        """Remove a folder's marker, so that the folder is written again."""
        with self.errors_explained():
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


@functools.cache
def storage_at(address: str) -> Storage:
    return Storage(address)


def find_storage() -> Storage | None:
    """The storage that RNNLM_STORAGE names; None without it. HomeError if it cannot be reached."""
    address = os.environ.get(VARIABLE)
    return storage_at(address) if address else None


def place_in_storage(folder: Path) -> str | None:
    """The name of a home's folder in the storage; None if its kind is not stored."""
    kind = folder.parent.name
    return f"{kind}/{folder.name}" if kind in KINDS else None
