"""Back up an rnnlm home in use: registry, metrics, corpora, Prefect's database and files of registered versions.

The databases are copied first, with SQLite's online backup. A file is complete before a row of a database names it, and
never changes afterwards. Hence the files, which are copied later, are consistent with the databases.
"""

import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rnnlm.errors import HomeError
from rnnlm.extensions.upkeep.archive_checks import MLFLOW_DATABASE, PREFECT_DATABASE
from rnnlm.extensions.upkeep.backup_archive import (
    FORMAT,
    SUFFIX,
    ArchiveWriter,
    Manifest,
    find_archive_damage,
    read_manifest,
)
from rnnlm.extensions.upkeep.inventory import Inventory, take_inventory
from rnnlm.extensions.upkeep.prune import UPKEEP_LOCK
from rnnlm.extensions.upkeep.retention import keep
from rnnlm.registry.stored_versions import Key
from rnnlm.storage.contained_paths import problem_of
from rnnlm.storage.disk_errors import ABSENT, full_disk_explained
from rnnlm.storage.home import Home, atomic_file, expanded
from rnnlm.storage.records import Record
from rnnlm.storage.redaction import redacted
from rnnlm.storage.shared_storage import read_marker
from rnnlm.storage.stages import COMPLETE
from rnnlm.tracking.mlflow_store import is_embedded, tracking_uri


class BackupRecord(Record):
    archive: Path
    files: int
    bytes: int
    versions: tuple[str, ...]
    damaged: tuple[str, ...]  # Descriptions of files that were damaged before the backup.
    not_covered: tuple[str, ...]
    seconds: float


def back_up(home: Home, folder: Path, own_prefect: str | None = None) -> BackupRecord:
    """Write a new archive to `folder` and verify it. Other archives in the folder are not changed.

    `own_prefect` is the address of the rnnlm home's own Prefect server, whose database is part of the backup. Raise
    HomeError if the folder is inside the home, or if the home has lost its registry.
    """
    start = time.perf_counter()
    folder = expanded(folder).resolve()
    check_source(home, folder)
    made = datetime.now(UTC)
    archive = folder / f"{made:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}{SUFFIX}"
    Home(folder).make(folder)
    with home.lock(UPKEEP_LOCK), full_disk_explained(folder), atomic_file(archive, private=True) as partial:
        with partial.open("r+b") as stream:
            writer = ArchiveWriter(stream)
            damaged = [problem for name in databases(home) if (problem := add_database(writer, home.root / name, name))]
            inventory = take_inventory(home)
            damaged += add_files(writer, home, inventory)
            manifest = Manifest(
                format=FORMAT,
                homes=tuple(dict.fromkeys((home.root, home.root.resolve()))),
                made=made.isoformat(timespec="seconds"),
                rnnlm=version("rnnlm"),
                versions=tuple(f"{found.name}/{found.number}" for found in inventory.versions),
                damaged=tuple(damaged),
                files=writer.files,
            )
            writer.close(manifest)
        if read_manifest(partial) != manifest or find_archive_damage(partial, manifest):
            raise HomeError(f"{folder}: data written there differs when read back; check this disk")
    return BackupRecord(
        archive=archive,
        files=len(manifest.files),
        bytes=sum(file.bytes for file in manifest.files.values()),
        versions=manifest.versions,
        damaged=manifest.damaged,
        not_covered=not_covered(home, own_prefect),
        seconds=time.perf_counter() - start,
    )


def check_source(home: Home, folder: Path) -> None:
    if home.root.resolve() in (folder, *folder.parents):
        raise HomeError(f"{folder}: is in the home {home.root}, and would be lost with it;\ngive a folder elsewhere")
    if folder.exists() and not folder.is_dir():
        raise HomeError(f"{folder}: is a file, expected a folder for backups")
    if not home.root.is_dir():
        raise HomeError(f"{home.root}: there is no home to back up;\nset RNNLM_HOME, or run rnnlm run first")
    if is_embedded(home) and home.artifacts.is_dir() and not home.mlflow_database.exists():
        raise HomeError(
            f"{home.mlflow_database}: the registry is missing, and {home.artifacts} has files of models.\n"
            "Restore an earlier backup (rnnlm restore); all earlier backups are unchanged."
        )


def databases(home: Home) -> Iterator[str]:
    """Yield the paths of the databases in the rnnlm home. Databases on a server must be backed up separately."""
    if is_embedded(home) and home.mlflow_database.exists():
        yield MLFLOW_DATABASE
    if (home.root / PREFECT_DATABASE).exists():
        yield PREFECT_DATABASE


def not_covered(home: Home, own_prefect: str | None = None) -> tuple[str, ...]:
    """Return the stores that the backup lacks because they are outside the rnnlm home."""
    found = []
    if not is_embedded(home):
        found.append(
            f"MLflow at {redacted(tracking_uri(home))}: registry, metrics and registered models; back up its database "
            "and artifact store with their own tools"
        )
    prefect = os.environ.get("PREFECT_API_URL")
    if prefect is not None and prefect.replace("//localhost:", "//127.0.0.1:").rstrip("/") != own_prefect:
        found.append(f"Prefect at {redacted(prefect)}, unless it uses this home's prefect.db")
    return tuple(found)


def add_database(writer: ArchiveWriter, database: Path, name: str) -> str | None:
    """Add a consistent copy of a SQLite file that other processes may be writing to.

    Return a description of damage in the database, or None.
    """
    with tempfile.TemporaryDirectory(dir=Path(writer.stream.name).parent, prefix=".snapshot-") as temporary:
        snapshot = Path(temporary) / database.name
        try:
            with (
                closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=60.0)) as source,
                closing(sqlite3.connect(snapshot)) as target,
            ):
                source.backup(target)
                # With the journal mode `delete`, the copy is a single file without a write-ahead log.
                target.execute("pragma journal_mode = delete")
                (found,) = target.execute("pragma quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            raise HomeError(
                f"{database}: the database cannot be copied ({error}).\n"
                "No backup was made; earlier backups are unchanged. Free some disk space, or restore an earlier backup."
            ) from error
        writer.add(name, snapshot)
    return None if found == "ok" else f"{name} is damaged: {found}; backed up as it is"


def add_files(writer: ArchiveWriter, home: Home, inventory: Inventory) -> list[str]:
    """Add the files to back up, and return descriptions of damaged files."""
    damaged = []
    for path, expected in chosen_files(home, inventory):
        name = path.relative_to(home.root).as_posix()
        if problem := problem_of(name):
            damaged.append(f"{ascii(name)} is left out: {problem}")
            continue
        try:
            added = writer.add(name, path)
        except PermissionError as error:
            damaged.append(f"{name} is left out: {error.strerror}")
            continue
        except ABSENT:
            if expected is not None:
                damaged.append(f"{name} is missing")
            continue
        if expected is not None and (added is None or added.sha256 != expected):
            damaged.append(f"{name} differs from its sha256; backed up as it is")
    return damaged


def chosen_files(home: Home, inventory: Inventory) -> Iterator[tuple[Path, str | None]]:
    """Yield the files to copy, each with its sha256 in a COMPLETE marker, or None if no marker lists the file.

    These are all corpora, the artifacts of all MLflow runs, and the files of registered versions with all items from
    which the versions were made. If the registry is not in the rnnlm home, all finished runs and the items that they
    need are copied instead of the versions.
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


def files_below(path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the file, or all files of the folder, with their digests from the folder's COMPLETE markers.

    Files in a marker are yielded even if they are missing. Hidden files are incomplete and are left out.
    """
    found = [path] if path.is_file() else []
    for folder, below, names in os.walk(path, followlinks=True):
        below[:] = (name for name in below if not name.startswith("."))
        found += (Path(folder, name) for name in names if not name.startswith("."))
    digests: dict[Path, str] = {}
    for marker in found:
        if marker.name == COMPLETE:
            try:
                digests |= {marker.parent / name: digest for name, digest in read_marker(marker.parent).items()}
            except ValueError as error:
                # The error message replaces the sha256. It matches no file, so the marker is reported as damaged.
                digests[marker] = str(error)
    yield from ((file, digests.get(file)) for file in sorted({*found, *digests}))
