"""Restore a backup into an empty home, also on another path or machine.

MLflow stores absolute paths: they are rewritten for the new home before its database gets its name. The databases come
last, so a killed restore leaves no home that looks complete; run it again.
"""

from pathlib import Path

from pydantic import ValidationError

from rnnlm.errors import HomeError
from rnnlm.home import Home, atomic_file, digest_of, file_digest, read_json, write_json
from rnnlm.records import Record
from rnnlm.tracking.stored_locations import move_locations
from rnnlm.upkeep.backup import (
    FORMAT,
    MANIFEST,
    MLFLOW_DATABASE,
    PREFECT_DATABASE,
    BackedUpFile,
    Manifest,
    blob_path,
    copy_hashing,
)

RESTORING = ".restoring.json"  # in a home whose restore was not finished


class RestoreRecord(Record):
    home: Path
    moved_from: Path
    made: str  # when the backup was made
    files: int
    bytes: int


def restore_home(home: Home, folder: Path) -> RestoreRecord:
    """Write every file of the backup. HomeError if the home is not empty or the backup is not whole."""
    folder = folder.expanduser().resolve()
    manifest = read_manifest(folder)
    identity = {"backup": digest_of(manifest.model_dump(mode="json"))}
    check_home(home, identity)
    home.make(home.root)
    write_json(home.root / RESTORING, identity)
    for name, file in in_order(manifest):
        target = inside(home, name)
        if target.exists() and target.stat().st_size == file.bytes and file_digest(target) == file.sha256:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(target) as partial:
            if copy_hashing(blob_path(folder, file.sha256), partial) != file.sha256:
                raise HomeError(
                    f"{blob_path(folder, file.sha256)}: differs from its sha256; the backup of {name} is damaged.\n"
                    "Restore from another backup."
                )
            if name == MLFLOW_DATABASE:
                move_locations(partial, manifest.home, home.root)
    (home.root / RESTORING).unlink()
    return RestoreRecord(
        home=home.root,
        moved_from=manifest.home,
        made=manifest.made,
        files=len(manifest.files),
        bytes=sum(file.bytes for file in manifest.files.values()),
    )


def read_manifest(folder: Path) -> Manifest:
    """HomeError unless the backup is whole."""
    content = read_json(folder / MANIFEST)
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        raise HomeError(
            f"{folder}: no complete backup: {MANIFEST} is missing or damaged;\n"
            "give the folder that rnnlm backup wrote to, or run that backup again to its end"
        ) from error
    if manifest.format != FORMAT:
        raise HomeError(
            f"{folder}: the backup has format {manifest.format}, expected {FORMAT}; use rnnlm {manifest.rnnlm}"
        )
    for name, file in manifest.files.items():
        blob = blob_path(folder, file.sha256)
        if not blob.is_file() or blob.stat().st_size != file.bytes:
            raise HomeError(f"{blob}: the backup's copy of {name} is missing or cut off.\nRestore from another backup.")
    return manifest


def check_home(home: Home, identity: dict[str, str]) -> None:
    """HomeError if something is in the home, unless it is from an unfinished restore of the same backup."""
    if read_json(home.root / RESTORING) == identity:
        return
    places = ("corpora", "datasets", "runs", "artifacts", MLFLOW_DATABASE, PREFECT_DATABASE)
    taken = [name for name in places if occupied(home.root / name)]
    if taken or (home.root / RESTORING).exists():
        raise HomeError(
            f"{home.root}: is not empty ({', '.join(taken) or 'an unfinished restore of another backup'}).\n"
            "Set RNNLM_HOME to a new folder and run rnnlm restore again; nothing was changed."
        )


def occupied(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def in_order(manifest: Manifest) -> list[tuple[str, BackedUpFile]]:
    """The registry last: until then no model is listed."""
    last = (PREFECT_DATABASE, MLFLOW_DATABASE)
    return sorted(manifest.files.items(), key=lambda entry: last.index(entry[0]) + 1 if entry[0] in last else 0)


def inside(home: Home, name: str) -> Path:
    """The path in the home. HomeError if a damaged manifest names one elsewhere."""
    path = home.root / name
    if not path.resolve().is_relative_to(home.root.resolve()):
        raise HomeError(f"{name}: the backup's {MANIFEST} names a path outside of the home; it was changed by hand")
    return path
