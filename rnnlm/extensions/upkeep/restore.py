"""Restore a backup into an empty rnnlm home, possibly in another folder or on another machine.

MLflow stores absolute paths. They are rewritten for the new home before its database is renamed to its final name. The
databases are restored last, so that an interrupted restore does not look like a complete home. Running the restore
again completes it. Damaged files of the archive are left out.
"""

import os
import tempfile
from pathlib import Path

from rnnlm.errors import HomeError
from rnnlm.extensions.upkeep.archive_checks import (
    MLFLOW_DATABASE,
    PREFECT_DATABASE,
    check_database,
    check_manifest,
    explained,
)
from rnnlm.extensions.upkeep.backup_archive import BackedUpFile, DamagedFileError, Manifest, pieces_of, read_manifest
from rnnlm.storage.contained_paths import UnsafeNameError, inside
from rnnlm.storage.disk_errors import full_disk_explained
from rnnlm.storage.home import Home, atomic_file, digest_of, expanded, file_digest, partial_path, read_json, write_json
from rnnlm.storage.records import Record
from rnnlm.tracking.stored_locations import move_locations

RESTORING = ".restoring.json"  # A file that marks an rnnlm home whose restore is not complete.


class RestoreRecord(Record):
    home: Path
    moved_from: Path
    made: str  # The time when the backup was made.
    files: int
    bytes: int
    left_out: tuple[str, ...]  # The files that were not restored, because they are damaged in the archive.
    damaged: tuple[str, ...]  # The files that were damaged before the backup was made.


def restore_home(home: Home, archive: Path) -> RestoreRecord:
    """Write every undamaged file of the backup to the home.

    Raise HomeError if the home is not empty or the archive is not a complete backup. Everything is checked before the
    first byte is written, because an archive may come from an untrusted source.
    """
    archive = expanded(archive).resolve()
    manifest = read_manifest(archive)
    check_manifest(manifest, archive, archive.stat().st_size)
    identity = {"backup": digest_of(manifest.model_dump(mode="json"))}
    is_resumed = check_home(home, identity)
    if not is_resumed:
        check_room(nearest_folder(home.root), manifest)
    check_databases(archive, manifest, nearest_folder(home.root))
    home.make(home.root)
    restored: list[BackedUpFile] = []
    left_out: list[str] = []
    with full_disk_explained(home.root):
        write_json(home.root / RESTORING, identity)
        for name, file in in_order(manifest):
            try:
                restore_file(archive, manifest, file, inside(home.root, name, any_links=True), home)
            except (UnsafeNameError, DamagedFileError):
                left_out.append(ascii(name)[1:-1])
            else:
                restored.append(file)
        (home.root / RESTORING).unlink()
    return RestoreRecord(
        home=home.root,
        moved_from=manifest.homes[0],
        made=manifest.made,
        files=len(restored),
        bytes=sum(file.bytes for file in restored),
        left_out=tuple(left_out),
        damaged=manifest.damaged,
    )


def check_databases(archive: Path, manifest: Manifest, place: Path) -> None:
    """Raise HomeError if an undamaged file is not a database of MLflow or Prefect.

    Copies of the databases are written to a temporary folder in `place`.
    """
    for name in (MLFLOW_DATABASE, PREFECT_DATABASE):
        if (file := manifest.files.get(name)) is None:
            continue
        with full_disk_explained(place), tempfile.TemporaryDirectory(dir=place, prefix=".rnnlm-restore-") as temporary:
            copy = Path(temporary) / "database"
            try:
                write_pieces(archive, file, copy)
            except DamagedFileError:  # This database is left out, and its damage is reported later.
                continue
            check_database(copy, name)


def nearest_folder(path: Path) -> Path:
    """Return the folder, or the nearest parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def restore_file(archive: Path, manifest: Manifest, file: BackedUpFile, target: Path, home: Home) -> None:
    """Write one file, unless an interrupted restore has already written it.

    Raise DamagedFileError if the file in the archive has a different sha256.
    """
    if target.is_file() and target.stat().st_size == file.bytes and file_digest(target) == file.sha256:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target not in (home.root / MLFLOW_DATABASE, home.root / PREFECT_DATABASE):
        # The files are not synced one by one, which would take minutes for many small files. os.sync() is called once
        # instead, before the databases are renamed to their final names.
        partial = partial_path(target)
        try:
            partial.touch(0o600)
            write_pieces(archive, file, partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return
    os.sync()
    with atomic_file(target, private=True) as partial:
        write_pieces(archive, file, partial)
        if target == home.root / MLFLOW_DATABASE:
            with explained(MLFLOW_DATABASE):
                for before in manifest.homes:
                    move_locations(partial, before, home.root)


def write_pieces(archive: Path, file: BackedUpFile, target: Path) -> None:
    with target.open("wb") as writer:
        for piece in pieces_of(archive, file):
            writer.write(piece)


def check_room(place: Path, manifest: Manifest) -> None:
    """Raise HomeError if the disk of the folder `place` has too little space, or too few free inodes, for the backup.

    An archive with very many files could otherwise fill the disk before the restore ends.
    """
    disk, wanted_bytes = os.statvfs(place), sum(file.bytes for file in manifest.files.values())
    wanted_files = len(manifest.files) + len({name.rpartition("/")[0] for name in manifest.files})
    free_bytes, free_files = disk.f_bavail * disk.f_frsize, disk.f_favail
    # f_files is 0 in file systems without a fixed number of files.
    if wanted_bytes > free_bytes or (disk.f_files and wanted_files > free_files):
        raise HomeError(
            f"{place}: this backup needs {wanted_bytes:,} bytes and {wanted_files:,} files; no space is left for it\n"
            f"on this disk ({free_bytes:,} bytes, {free_files:,} files). Nothing was written.\n"
            "Free some space, or set RNNLM_HOME to a folder on another disk."
        )


def check_home(home: Home, identity: dict[str, str]) -> bool:
    """Return True if the rnnlm home has an unfinished restore of the same backup.

    Otherwise raise HomeError if it is not empty.
    """
    if read_json(home.root / RESTORING) == identity:
        return True
    places = ("corpora", "datasets", "runs", "artifacts", MLFLOW_DATABASE, PREFECT_DATABASE)
    taken = [name for name in places if occupied(home.root / name)]
    if taken or (home.root / RESTORING).exists():
        raise HomeError(
            f"{home.root}: is not empty ({', '.join(taken) or 'an unfinished restore of another backup'}).\n"
            "Set RNNLM_HOME to a new folder and run rnnlm restore again; nothing was changed."
        )
    return False


def occupied(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def in_order(manifest: Manifest) -> list[tuple[str, BackedUpFile]]:
    """Return the files with the registry's database last, so that all files of a listed model exist."""
    last = (PREFECT_DATABASE, MLFLOW_DATABASE)
    return sorted(manifest.files.items(), key=lambda entry: last.index(entry[0]) + 1 if entry[0] in last else 0)
