"""Back up a home while it is in use: registry, metrics, all that registered versions need, corpora, Prefect's database.

FOLDER/blobs/ab/abcdef…   the content of each file, named by its sha256; what is there already is not copied again
FOLDER/MANIFEST.json      path in the home → sha256 and size; written last: until then the backup before it is whole

The databases are copied first, by SQLite's online backup. Every file that their rows name was complete before its row
was written, and is never changed. So the files copied afterwards fit the databases.
"""

import hashlib
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rnnlm.disk_errors import ABSENT
from rnnlm.errors import HomeError
from rnnlm.home import Home, file_digest, read_json, sync, write_json
from rnnlm.records import Record
from rnnlm.redaction import redacted
from rnnlm.stages import COMPLETE
from rnnlm.tracking.mlflow_store import is_embedded, tracking_uri
from rnnlm.upkeep.inventory import Inventory, Key, take_inventory
from rnnlm.upkeep.prune import UPKEEP_LOCK
from rnnlm.upkeep.retention import keep

logger = logging.getLogger(__name__)
MANIFEST = "MANIFEST.json"
FORMAT = 1
BLOBS = "blobs"
MLFLOW_DATABASE, PREFECT_DATABASE = "mlflow.db", "prefect/prefect.db"


class BackedUpFile(Record):
    sha256: str
    bytes: int


class Manifest(Record):
    format: int
    home: Path  # where it was: paths in the databases begin with it
    made: str  # ISO 8601, UTC
    rnnlm: str  # version of the program
    files: dict[str, BackedUpFile]  # path in the home → content


class BackupRecord(Record):
    folder: Path
    files: int
    bytes: int  # of all files; equal ones are stored once
    copied_files: int
    copied_bytes: int
    versions: tuple[str, ...]
    damaged: tuple[str, ...]  # what was wrong with files of the home before
    not_covered: tuple[str, ...]
    seconds: float


def back_up(home: Home, folder: Path) -> BackupRecord:
    """Make or renew the backup in `folder`. HomeError if the folder is in the home or holds something else."""
    start = time.time()
    folder = folder.expanduser().resolve()
    check_target(home, folder)
    with home.lock(UPKEEP_LOCK):
        blobs = BlobStore(folder)
        files = {name: blobs.add_database(home.root / name) for name in databases(home)}
        inventory = take_inventory(home)
        for path, expected in chosen_files(home, inventory):
            name = path.relative_to(home.root).as_posix()
            if (added := blobs.add(path, expected, name)) is not None:
                files[name] = added
        manifest = Manifest(
            format=FORMAT,
            home=home.root,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            rnnlm=version("rnnlm"),
            files=files,
        )
        write_json(folder / MANIFEST, manifest.model_dump(mode="json"))
        blobs.remove_others({file.sha256 for file in files.values()})
    for problem in blobs.damaged:
        logger.warning("%s; backed up as it is", problem)
    return BackupRecord(
        folder=folder,
        files=len(files),
        bytes=sum(file.bytes for file in files.values()),
        copied_files=blobs.copied_files,
        copied_bytes=blobs.copied_bytes,
        versions=tuple(f"{found.name}/{found.number}" for found in inventory.versions),
        damaged=tuple(blobs.damaged),
        not_covered=not_covered(home),
        seconds=time.time() - start,
    )


def check_target(home: Home, folder: Path) -> None:
    if folder == home.root or home.root in folder.parents:
        raise HomeError(f"{folder}: is in the home {home.root}, and would be lost with it;\ngive a folder elsewhere")
    if folder.exists() and not (folder / MANIFEST).exists() and not (folder / BLOBS).exists() and any(folder.iterdir()):
        raise HomeError(f"{folder}: holds something else than a backup;\ngive a new folder, or one with a backup")
    if not home.root.is_dir():
        raise HomeError(f"{home.root}: there is no home to back up;\nset RNNLM_HOME, or run rnnlm run first")


def databases(home: Home) -> Iterator[str]:
    """Their paths in the home. A server's database has its own backups."""
    if is_embedded(home) and home.mlflow_database.exists():
        yield MLFLOW_DATABASE
    if (home.root / PREFECT_DATABASE).exists():
        yield PREFECT_DATABASE


def not_covered(home: Home) -> tuple[str, ...]:
    """What is not in the backup because it is not in the home."""
    found = []
    if not is_embedded(home):
        found.append(
            f"MLflow at {redacted(tracking_uri(home))}: registry, metrics and registered models; back up its database "
            "and artifact store by their own means"
        )
    if "PREFECT_API_URL" in os.environ:
        found.append(f"Prefect at {redacted(os.environ['PREFECT_API_URL'])}, unless it uses this home's prefect.db")
    return tuple(found)


def chosen_files(home: Home, inventory: Inventory) -> Iterator[tuple[Path, str | None]]:
    """The files to copy, each with its sha256 if a marker says it.

    Those of registered versions and their lineage, all corpora, and the artifacts of all MLflow runs. Without an
    embedded registry: all finished runs and what they need.
    """
    chosen: dict[Key, str] = {}
    kinds = {"version", "corpus", "note", "mlflow-run"} | (set() if is_embedded(home) else {"run"})
    for key, item in inventory.items.items():
        if item.kind in kinds and item.finished:
            keep(key, "backed up", inventory, chosen)
    for key in sorted(chosen):
        path = inventory.items[key].path
        if path is not None:
            yield from files_below(path)


def files_below(path: Path, digests: dict[str, str] | None = None) -> Iterator[tuple[Path, str | None]]:
    """The file, or all files of the folder, with their digests; hidden ones are partial writes and are left out.

    digests: relative to this path, from a COMPLETE marker above it.
    """
    known = digests or {}
    if path.is_file():
        yield path, known.get("")
        return
    marked = read_json(path / COMPLETE)
    if isinstance(marked, dict):
        known = marked
        yield from ((path / name, digest) for name, digest in known.items() if not (path / name).exists())
    for entry in sorted(path.iterdir()) if path.is_dir() else ():
        if entry.name.startswith("."):
            continue
        below = {
            name.removeprefix(entry.name).removeprefix("/"): digest
            for name, digest in known.items()
            if name == entry.name or name.startswith(f"{entry.name}/")
        }
        yield from files_below(entry, below)


def blob_path(folder: Path, digest: str) -> Path:
    return folder / BLOBS / digest[:2] / digest


class BlobStore:
    """The contents of a backup's files, each stored once under its sha256."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copied_files = self.copied_bytes = 0
        self.damaged: list[str] = []
        Home(folder).make(folder / BLOBS)

    def add_database(self, database: Path) -> BackedUpFile:
        """A consistent copy of a SQLite file that others may be writing to."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".snapshot-") as temporary:
            snapshot = Path(temporary) / database.name
            with (
                closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=60.0)) as source,
                closing(sqlite3.connect(snapshot)) as target,
            ):
                source.backup(target)
                target.execute("pragma journal_mode = delete")  # one file, without a log beside it
            added = self.add(snapshot, None, database.name)
        assert added is not None
        return added

    def add(self, path: Path, expected: str | None, name: str) -> BackedUpFile | None:
        """Copy a file unless its content is stored. None if it has gone. expected: its sha256, if known."""
        try:
            digest = expected or file_digest(path)
            stored, size = blob_path(self.folder, digest), path.stat().st_size
            if not (stored.exists() and stored.stat().st_size == size):
                digest = self.copy(path)
        except ABSENT:
            if expected is not None:
                self.damaged.append(f"{name} is missing")
            return None
        if expected is not None and digest != expected:
            self.damaged.append(f"{name} differs from its sha256")
        return BackedUpFile(sha256=digest, bytes=blob_path(self.folder, digest).stat().st_size)

    def copy(self, path: Path) -> str:
        """Store the file's content; returns its sha256."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".copy-") as temporary:
            copied = Path(temporary) / "content"
            digest = copy_hashing(path, copied)
            final = blob_path(self.folder, digest)
            final.parent.mkdir(parents=True, exist_ok=True)
            sync(copied)
            copied.replace(final)
            sync(final.parent)
        self.copied_files += 1
        self.copied_bytes += final.stat().st_size
        return digest

    def remove_others(self, digests: set[str]) -> None:
        """Delete what only earlier backups in this folder needed, and what killed ones left."""
        for path in (self.folder / BLOBS).glob("*/*"):
            if path.name not in digests:
                path.unlink()
        for leftover in [*self.folder.glob(".snapshot-*"), *self.folder.glob(".copy-*")]:
            shutil.rmtree(leftover, ignore_errors=True)


def copy_hashing(source: Path, target: Path) -> str:
    """Copy a file; returns the sha256 of what was copied."""
    digest = hashlib.sha256()
    with source.open("rb") as reader, target.open("wb") as writer:
        while piece := reader.read(1 << 20):
            digest.update(piece)
            writer.write(piece)
    return digest.hexdigest()
