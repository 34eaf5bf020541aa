"""Remove all items from an rnnlm home that are not kept by its retention rules.

If the command is killed at any time, the home still works, and the next call continues. Registered versions are removed
first, then their files in MLflow, then runs, datasets and corpora, so that no registered version ever lacks its files.

Meanwhile, other processes may find an existing output and skip their stage. They mark the output as used
(stages.mark_used) before they verify it. Each folder is therefore renamed before it is deleted, under the lock of its
writers, and renamed back if it was used after the inventory was taken.
"""

import logging
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from rnnlm.extensions.upkeep.inventory import ITEM_KINDS, Inventory, last_used, take_inventory, version_key
from rnnlm.extensions.upkeep.retention import RetentionPlan, plan_retention, removable_versions
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.registry.mlflow_database import compact_database
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.stored_versions import Item, Key, remove_model, remove_run, remove_versions
from rnnlm.storage.home import PLACES, Home, partial_path, size_of
from rnnlm.storage.records import Record
from rnnlm.storage.stages import COMPLETE, replaced_path
from rnnlm.tracking.mlflow_store import is_embedded, is_empty

logger = logging.getLogger(__name__)
# The lock that prune and backup hold, so that prune does not remove files that a backup will copy.
UPKEEP_LOCK = "upkeep"
# The lock that the writers of each kind of item hold.
LOCKS = {place.kind: place.lock for place in PLACES if place.kind and place.lock}


class KindTotal(Record):
    kind: str
    removed_items: int
    removed_bytes: int
    kept_items: int
    kept_bytes: int


class PruneRecord(Record):
    dry_run: bool
    totals: tuple[KindTotal, ...]
    removed: tuple[Item, ...]
    kept: dict[str, str]  # The kept versions, each with the reason for keeping it.
    database_bytes: dict[str, int]  # The sizes of mlflow.db and prefect.db after the removal.
    seconds: float


def prune_home(
    home: Home, config: RetentionConfig, in_use_since: float | None = None, now: float | None = None
) -> PruneRecord:
    """Remove all items that `config` does not keep. With config.dry_run, only report them.

    `in_use_since` is the start time of the oldest running flow run of this rnnlm home, or None if no flow run is
    running.
    """
    start = time.perf_counter()
    with home.lock(UPKEEP_LOCK):
        inventory = take_inventory(home)
        plan = plan_retention(inventory, config, time.time() if now is None else now, in_use_since)
        removed = list(plan.removed) if config.dry_run else remove_planned(home, inventory, plan, config)
    names = {item.key for item in removed}
    versions = {name: why for (kind, name), why in plan.kept.items() if kind == "version"}
    databases = {path.name: size_of(path) for path in (home.mlflow_database, home.prefect / "prefect.db")}
    return PruneRecord(
        dry_run=config.dry_run,
        totals=tuple(totals(inventory.items.values(), names)),
        removed=tuple(removed),
        kept=versions,
        database_bytes=databases,
        seconds=time.perf_counter() - start,
    )


def totals(items: Iterable[Item], removed: set[Key]) -> list[KindTotal]:
    """Return one row for each kind that exists, in the order of ITEM_KINDS."""
    found = list(items)
    rows = []
    for kind in ITEM_KINDS:
        gone = [item.bytes for item in found if item.kind == kind and item.key in removed]
        kept = [item.bytes for item in found if item.kind == kind and item.key not in removed]
        if gone or kept:
            rows.append(
                KindTotal(
                    kind=kind,
                    removed_items=len(gone),
                    removed_bytes=sum(gone),
                    kept_items=len(kept),
                    kept_bytes=sum(kept),
                )
            )
    return rows


def remove_planned(home: Home, inventory: Inventory, plan: RetentionPlan, config: RetentionConfig) -> list[Item]:
    """Remove the planned items that are still unused.

    If an item cannot be removed, the items that it needs are also kept.
    """
    protected: set[Key] = set()
    deleted = remove_planned_versions(home, inventory, plan, config)
    removed: list[Item] = []
    for item in plan.removed:
        if item.key in deleted or (item.key not in protected and remove_item(home, item)):
            removed.append(item)
        else:
            protect(item, inventory, protected)
    if is_embedded(home) and not is_empty(home):
        compact_database(home)
    return removed


def protect(item: Item, inventory: Inventory, protected: set[Key]) -> None:
    """Add everything that the item needs, directly or indirectly, to `protected`."""
    for key in item.needs:
        if key not in protected and key in inventory.items:
            protected.add(key)
            protect(inventory.items[key], inventory, protected)


def remove_planned_versions(home: Home, inventory: Inventory, plan: RetentionPlan, config: RetentionConfig) -> set[Key]:
    """Remove versions from the registry, and return the keys of the removed versions."""
    planned = {item.key for item in plan.removed}
    names = {version.name for version in inventory.versions if version_key(version) in planned}

    def still_removable(versions: list[RegistryVersion]) -> set[int]:
        return removable_versions(versions, plan.removed, config)

    return {version_key(version) for name in sorted(names) for version in remove_versions(home, name, still_removable)}


def remove_item(home: Home, item: Item) -> bool:
    """Remove an item. Return False if a process holds its lock or has used it since the inventory was taken.

    The item must not be a version. Versions are removed earlier, all versions of a registered model under one lock.
    """
    if item.kind == "version":
        return False
    if item.kind == "model":
        remove_model(home, item.name, item.path)
        return True
    if item.kind == "mlflow-run":
        remove_run(home, item.name, item.path)
        return True
    assert item.path is not None
    if item.kind == "lock":
        return remove_lock(home, item)
    if item.kind == "leftover":
        return remove_leftover(home, item.path)
    if item.kind not in LOCKS:
        return remove_unused(item.path, item.used)
    with home.lock_if_free(LOCKS[item.kind].format(item.name)) as free:
        return free and remove_unused(item.path, item.used)


def remove_unused(path: Path, used: float) -> bool:
    """Delete a file or folder, unless it was used after `used`, in seconds since 1970."""
    if last_used(path) > used:
        return False
    # The path is renamed first. If this process is killed, remove_partials or the next prune deletes it under the new
    # name.
    aside = partial_path(path)
    try:
        path.replace(aside)
    except FileNotFoundError:
        return False
    if last_used(aside) > used:
        aside.replace(path)
        return False
    delete(aside)
    return True


def delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftover(home: Home, path: Path) -> bool:
    """Delete the leftover of a killed process, unless a running process uses it.

    A folder that was renamed for deletion is renamed back if its replacement is missing.
    """
    final = path.parent / path.name.removeprefix(".").rpartition(".")[0]
    lock = f"run-{final.name}" if path.parent == home.runs else f"{path.parent.name}-{final.name}"
    if path.name.startswith(".incoming-"):
        lock = f"corpus-{path.name.removeprefix('.incoming-')}"
    with home.lock_if_free(lock) as free:
        if not free:
            return False
        if path == replaced_path(final) and not (final / COMPLETE).exists():
            if final.exists():
                return False  # The leftover is kept for now, because another process is writing its replacement.
            path.replace(final)
            return True
        delete(path)
    return True


def remove_lock(home: Home, item: Item) -> bool:
    """Delete an old lock file while holding its lock.

    A process that waits for the lock notices the deletion and recreates the file.
    """
    assert item.path is not None
    if item.path.suffix != ".lock":
        return False
    with home.lock_if_free(item.path.stem) as free:
        if free:
            item.path.unlink(missing_ok=True)
    return free
