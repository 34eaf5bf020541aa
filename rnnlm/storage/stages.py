"""Stages that run once: their versions, keys and locks, the verification of their outputs, and logging."""

import functools
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from rnnlm.errors import HomeError
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.disk_errors import ABSENT, full_disk_explained, read_with_retries
from rnnlm.storage.home import Home, digest_of, file_digest, partial_path, read_json, remove_partials, sync, write_json
from rnnlm.storage.records import StageRecord
from rnnlm.storage.shared_storage import COMPLETE, find_storage, is_compiled, place_in_storage, read_marker

logger = logging.getLogger(__name__)
# The version of each stage's output. It is part of the output's key, as are the versions of libraries. Increase it when
# the same input gives a different output, so that existing output is created again.
STAGE_VERSIONS = {
    "corpus": 5,
    "tokenizer": 6,
    "sequences": 4,
    "copies": 1,
    "training": 6,
    "evaluation": 3,
    "samples": 2,
    "surprise": 1,
    "probes": 2,
    "probe-comparison": 1,
    "training-costs": 1,
    "comparison": 2,
    "ngram": 1,
    "scoring": 5,
    "reference-scores": 2,
    "bundle": 6,  # The version of the format of a registered model's bundle.
}
# The resolution of time stamps in the coarsest file systems, in which changes at least this far apart have different
# time stamps.
SETTLED_NANOSECONDS = 2_000_000_000
P = ParamSpec("P")
Stamp = list[Any]  # A list of a file's sha256, size, modification time and change time when it was hashed.
R = TypeVar("R", bound=StageRecord)


def stage(name: str) -> Callable[[Callable[Concatenate[Home, P], R]], Callable[Concatenate[Home, P], R]]:
    """Return a decorator for a stage, which logs the stage with its duration and explains errors if a disk is full."""

    def wrap(function: Callable[Concatenate[Home, P], R]) -> Callable[Concatenate[Home, P], R]:
        @functools.wraps(function)
        def timed(home: Home, *args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            with full_disk_explained(home.root):
                record = function(home, *args, **kwargs)
            seconds = time.perf_counter() - start
            what = "skipped, verified output exists" if record.skipped else "done"
            logger.info("%s: %s (%.1f s)", name, what, seconds)
            return record.model_copy(update={"seconds": seconds})

        return timed

    return wrap


def stage_key(name: str, **facts: Any) -> str:
    """Return the sha256 of everything on which a stage's output depends: its version and the values in `facts`."""
    return digest_of({"stage": STAGE_VERSIONS[name], **facts})


def write_once(
    home: Home,
    final: Path,
    build: Callable[[Path], None],
    *,
    force: bool = False,
    pieces: Path | None = None,
) -> bool:
    """Create the content-addressed folder `final` by `build(partial)`, unless it exists and is verified.

    Return True if it existed. Processes that need the same folder wait for each other. A folder that is damaged or is
    to be replaced is kept until its replacement is complete.

    `pieces` is a folder with finished parts of the work, from which the next run resumes if this one fails. It is
    removed when `final` is complete. If `force` is true, it is also removed before `build`.
    """
    home.make(final.parent)
    with home.lock(f"{final.parent.name}-{final.name}"):
        move_back(final)  # A process may have been killed between move_aside() and the renaming of its replacement.
        remove_partials(final)
        if not force and final.exists():
            mark_used(final)
            damage = find_new_damage(home, final)
            if damage is None:
                remove_pieces(pieces)
                copy_to_storage(final)
                return True
            logger.warning("%s: %s, so the folder is made again", final, damage)
        if force:
            remove_pieces(pieces)
        partial = partial_path(final)
        partial.mkdir()
        try:
            verified: dict[str, Stamp] = {}
            fetched = not force and copy_from_storage(final, partial)
            if not fetched:
                build(partial)
                verified = mark_complete(partial)
            move_aside(final)
            partial.replace(final)
            sync(final.parent)
            if verified:
                note_verified(home, final, verified)
        finally:
            move_back(final)
            remove_partials(final)
        remove_pieces(pieces)
        copy_to_storage(final)
        return fetched


def remove_pieces(pieces: Path | None) -> None:
    if pieces is not None:
        shutil.rmtree(pieces, ignore_errors=True)


def copy_to_storage(final: Path) -> None:
    """Copy a finished folder of the rnnlm home to the shared storage if there is a storage without this folder."""
    storage, place = find_storage(), place_in_storage(final)
    if storage and place and not storage.holds(place):
        storage.store(place, final)


def fetch_folder(final: Path) -> None:
    """Copy the folder `final` from the shared storage if the home lacks it. The caller must hold the folder's lock."""
    move_back(final)
    if final.exists():
        return
    partial = partial_path(final)
    partial.mkdir()
    try:
        if copy_from_storage(final, partial):
            partial.replace(final)
    finally:
        remove_partials(final)


def copy_from_storage(final: Path, partial: Path) -> bool:
    """Copy the folder `final` from the shared storage to the empty folder `partial`. Return False if it is missing."""
    storage, place = find_storage(), place_in_storage(final)
    if not (storage and place and storage.fetch(place, partial)):
        return False
    damage = find_damage(partial)
    if damage is not None:
        logger.warning("%s in %s: %s, so the folder is made again", place, storage.address, damage)
        storage.forget(place)
        shutil.rmtree(partial)
        partial.mkdir()
    return damage is None


def mark_complete(folder: Path, apart_from: Collection[str] = ()) -> dict[str, Stamp]:
    """Write the COMPLETE marker with the digests of all files that rnnlm wrote, except for entries in `apart_from`.

    Return the sizes, times and digests of the files that note_verified() may record.
    """
    entries = (path for path in folder.iterdir() if path.name not in {COMPLETE, *apart_from})
    files = sorted(file for path in entries for file in (path, *path.rglob("*")) if is_ours(file))
    for path in files:
        sync(path)
    digests: dict[str, str] = {}
    verified: dict[str, Stamp] = {}
    for path in files:
        name, began, stamp = str(path.relative_to(folder)), time.time_ns(), stamp_of(path)
        digests[name] = file_digest(path)
        if is_settled(stamp, began):
            verified[name] = [digests[name], *stamp]
    write_json(folder / COMPLETE, digests)
    return verified


def is_ours(path: Path) -> bool:
    """Return True if rnnlm wrote the file. Only compiled modules are written by Python."""
    return path.is_file() and not is_compiled(str(path))


def mark_used(folder: Path) -> None:
    """Record that the finished folder is used, before it is verified.

    `rnnlm prune` keeps folders that were used recently.
    """
    with suppress(OSError):  # A missing folder cannot be marked. A read-only folder is never pruned.
        os.utime(folder / COMPLETE)


def has_digest(path: Path, digest: str) -> bool:
    return file_digest(path) == digest


def find_damage(
    folder: Path, apart_from: Collection[str] = (), matches: Callable[[Path, str], bool] = has_digest
) -> str | None:
    """Return a description of a finished folder's damage, or None if every file has the digest in the marker.

    Entries in `apart_from` are ignored. Raise HomeError if a file cannot be read, which does not count as damage.
    """
    try:
        digests = read_marker(folder)
    except ABSENT:
        return f"{COMPLETE}, which marks a finished folder, is missing"
    except ValueError as error:
        return str(error)
    for name, digest in digests.items():
        if name.split("/")[0] in apart_from:
            continue
        try:
            if not matches(inside(folder, name, any_links=True), digest):
                return f"{name} differs from its sha256"
        except ABSENT:
            return f"{name} is missing"
    return None


def find_new_damage(home: Home, folder: Path, apart_from: Collection[str] = ()) -> str | None:
    """Return the damage as find_damage() does, but hash only files that seem to have changed since the last call."""
    known: dict[str, Stamp] = read_json(verified_path(home, folder)) or {}
    verified: dict[str, Stamp] = {}

    def matches(file: Path, digest: str) -> bool:
        name, began, stamp = str(file.relative_to(folder)), time.time_ns(), stamp_of(file)
        if known.get(name) != [digest, *stamp] and not has_digest(file, digest):
            return False
        if is_settled(stamp, began):
            verified[name] = [digest, *stamp]
        return True

    damage = find_damage(folder, apart_from, matches)
    if damage is None and verified != known:
        note_verified(home, folder, verified)
    return damage


def stamp_of(file: Path) -> list[int]:
    """Return the size, the modification time and the change time of a file. Times are in nanoseconds."""
    status = read_with_retries(file, Path.stat)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def is_settled(stamp: list[int], began: int) -> bool:
    """Return False if a file was changed less than two seconds before its hashing began.

    The size and the times of such a file must not be recorded, because they may be the same after a further change.
    """
    return max(stamp[1:]) < began - SETTLED_NANOSECONDS


def note_verified(home: Home, folder: Path, verified: dict[str, Stamp]) -> None:
    """Record in home.verified which files of the folder were hashed, so that find_new_damage can skip them."""
    # Without the record, which cannot be written in a read-only home, all files are hashed each time.
    with suppress(OSError, HomeError):
        home.make(home.verified)
        write_json(verified_path(home, folder), verified)


def verified_path(home: Home, folder: Path) -> Path:
    return home.verified / f"{folder.parent.name}-{folder.name}.json"


def forget_verified(home: Home) -> None:
    """Delete the records of note_verified(), so that each file is hashed again even if it seems unchanged."""
    shutil.rmtree(home.verified, ignore_errors=True)


def is_complete(folder: Path) -> bool:
    """Return True if the folder has a marker, and every file has the digest in the marker.

    Raise HomeError if a file cannot be read.
    """
    return find_damage(folder) is None


def move_aside(final: Path) -> None:
    """Rename `final`, if it exists, so that its replacement can have its name. move_back() undoes the renaming."""
    if final.exists():
        final.replace(replaced_path(final))


def move_back(final: Path) -> None:
    """Undo the renaming by move_aside, unless the replacement exists."""
    if replaced_path(final).exists() and not final.exists():
        replaced_path(final).replace(final)


def replaced_path(final: Path) -> Path:
    """Return the path to which move_aside renames a folder. remove_partials removes this path."""
    return final.parent / f".{final.name}.replaced"
