"""Plan a prune: the items of an rnnlm home that are kept, and the reasons. All functions are pure.

The plan starts from roots: aliases, rollback targets, the newest versions and datasets, and items in use. All items
that the roots need are also kept. All others are removed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rnnlm.extensions.upkeep.inventory import DERIVED, ITEM_KINDS, Inventory, version_key
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.registry.champion_history import Change, champion_before, read_history
from rnnlm.registry.promotion import best_champion
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.stored_versions import Item, Key
from rnnlm.storage.records import Record

DAY_SECONDS = 24 * 3600.0
# The longest time without any use of the rnnlm home that counts for the ages of its items.
LONGEST_IDLE_SECONDS = DAY_SECONDS
# Kinds of items that are kept for RetentionConfig.days even if no other item needs them.
AGED = ("mlflow-run", *DERIVED, "lock")


class RetentionPlan(Record):
    kept: dict[Key, str]  # The kept items, each with the reason for keeping it.
    removed: tuple[Item, ...]  # The items to remove, in the order of their removal.


def plan_retention(
    inventory: Inventory, config: RetentionConfig, now: float, in_use_since: float | None = None
) -> RetentionPlan:
    """Plan which items are kept.

    `in_use_since` is the start time of the oldest running flow run. Items that were used since then are kept, because a
    flow run may read them.
    """
    recent = recent_time(config, now, in_use_since)
    kept: dict[Key, str] = {}
    for key, reason in roots(inventory, config, now, recent):
        keep(key, reason, inventory, kept)
    removed = [item for key, item in inventory.items.items() if key not in kept]
    return RetentionPlan(kept=kept, removed=tuple(sorted(removed, key=lambda item: ITEM_KINDS.index(item.kind))))


def recent_time(config: RetentionConfig, now: float, in_use_since: float | None) -> float:
    """Return the start of the retention period. All items that were used after this time are kept."""
    recent = now - config.recent_hours * 3600
    return recent if in_use_since is None else min(recent, in_use_since)


def keep(key: Key, reason: str, inventory: Inventory, kept: dict[Key, str]) -> None:
    """Keep the item and everything that it needs, directly or indirectly."""
    waiting = [(key, reason)]
    while waiting:
        current, why = waiting.pop()
        if current in kept or current not in inventory.items:
            continue
        kept[current] = why
        waiting += [(needed, f"needed by {current[0]} {current[1]}") for needed in inventory.items[current].needs]


def roots(inventory: Inventory, config: RetentionConfig, now: float, recent: float) -> Iterator[tuple[Key, str]]:
    """Yield the items that are kept even if no other item needs them, each with the reason."""
    items = inventory.items
    for name, versions in by_name(inventory.versions).items():
        for number, reason in kept_versions(versions, config).items():
            yield ("version", f"{name}/{number}"), reason
    corpora: dict[str, list[Item]] = defaultdict(list)
    registered = {version.facts.get("run_id") for version in inventory.versions}
    oldest = now - config.days * DAY_SECONDS
    counted = counted_times(items.values(), now)
    for key, item in items.items():
        if item.used >= recent:
            yield key, "used recently"
        elif item.kind in AGED and counted[item.used] >= oldest:
            yield key, f"younger than {config.days} days"
        elif (
            item.kind == "run" and counted[item.used] >= oldest and item.name not in registered | inventory.pruned_runs
        ):
            yield key, "not registered" if item.finished else "unfinished"
        if item.kind == "dataset":
            corpora[item.group].append(item)
    for corpus, datasets in corpora.items():
        for dataset in sorted(datasets, key=lambda item: (item.used, item.name))[-config.datasets :]:
            yield dataset.key, f"among the last {config.datasets} of corpus {corpus}"


def counted_times(items: Iterable[Item], now: float) -> dict[float, float]:
    """Map each time of last use to the time from which an item's age is counted, leaving out days without any use.

    If the machine's clock is a year ahead, the home seems unused for a year. Its items then seem to be a year older,
    and all caches and unfinished runs would be removed.
    """
    counted: dict[float, float] = {}
    later = count = now
    for used in sorted({item.used for item in items}, reverse=True):
        count -= min(max(later - used, 0.0), LONGEST_IDLE_SECONDS)
        counted[used], later = count, min(used, later)
    return counted


def by_name(versions: Iterable[RegistryVersion]) -> dict[str, list[RegistryVersion]]:
    grouped: dict[str, list[RegistryVersion]] = defaultdict(list)
    for version in versions:
        grouped[version.name].append(version)
    return grouped


def kept_versions(versions: Sequence[RegistryVersion], config: RetentionConfig) -> dict[int, str]:
    """Return the numbers of the kept versions of one registered model, each with the reason."""
    kept: dict[int, str] = {}
    for version in versions:
        if version.aliases:
            kept[version.number] = f"alias {', '.join(version.aliases)}"
    champion = next((version.number for version in versions if "champion" in version.aliases), None)
    chain = rollback_chain(versions, champion, config.champions)
    for number in chain:
        kept.setdefault(number, "champion before")
    for number in sorted(version.number for version in versions)[-config.versions :]:
        kept.setdefault(number, f"among the last {config.versions}")
    if champion is not None and (best := best_champion(list(versions), champion, within=None)) is not None:
        kept.setdefault(best.number, "the best champion at the last comparison")
        for change in read_history(versions):
            # This change replaced the best version.
            if change.before == best.number:
                kept.setdefault(change.version, f"it replaced version {best.number}")
    # The version with the highest number of comparisons with a champion is kept, because the numbering continues from
    # it: each further comparison needs more evidence.
    for before in {champion, *chain}:
        compared = [version for version in versions if version.parent == before and version.comparison is not None]
        last = max(compared, key=lambda version: (version.comparison or 0, version.number), default=None)
        if last is not None:
            kept.setdefault(last.number, f"the last comparison with champion {before}")
    return kept


def rollback_chain(versions: Sequence[RegistryVersion], champion: int | None, longest: int) -> list[int]:
    """Return the versions that one, two, … rollbacks would make champion, at most `longest` of them."""
    history = read_history(versions)
    living = {version.number for version in versions}
    chain: list[int] = []
    current = champion
    while len(chain) < longest and (before := champion_before(history, current, living)) is not None:
        chain.append(before)
        history.append(rollback_to(before))
        current = before
    return chain


def rollback_to(version: int) -> Change:
    return Change(number=0, version=version, before=None, how="rollback", who="", when="", why="")


def removable_versions(
    versions: Sequence[RegistryVersion], planned: Iterable[Item], config: RetentionConfig
) -> set[int]:
    """Return the planned versions that may still be removed. Aliases may have moved since the plan was made."""
    still = set(kept_versions(versions, config))
    keys = {item.key for item in planned}
    return {version.number for version in versions if version_key(version) in keys and version.number not in still}
