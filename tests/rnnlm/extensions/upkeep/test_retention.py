"""The plan of a prune keeps the right items in many random histories of a registry.

The test is fast, because the planning function reads no files.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnlm.extensions.upkeep.inventory import ITEM_KINDS, Inventory, lineage, version_key
from rnnlm.extensions.upkeep.retention import (
    DAY_SECONDS,
    RetentionPlan,
    by_name,
    kept_versions,
    plan_retention,
    removable_versions,
    rollback_chain,
)
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.registry.champion_history import Change, champion_before
from rnnlm.registry.promotion import BEST_WITHIN, best_champion
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.stored_versions import Item, Key

NOW = 1_000 * DAY_SECONDS
OLD = NOW - 500 * DAY_SECONDS


def version(
    number: int,
    name: str = "rnnlm-toy",
    *,
    created: float = OLD,
    aliases: tuple[str, ...] = (),
    changes: Iterable[Change] = (),
    comparison: int | None = None,
    **facts: str,
) -> RegistryVersion:
    defaults = {
        "logged_model_id": f"model-{name}-{number}",
        "run_id": f"run-{name}-{number}",
        "dataset_id": f"dataset-{name}-{number}",
        "corpus_digest": f"{name}-{number:06d}"[-16:],
        **{f"promotion.{one.number:04d}": one.model_dump_json() for one in changes},
    }
    if comparison is not None:
        defaults["evidence"] = json.dumps({"comparison": comparison})
    return RegistryVersion(
        name=name,
        number=number,
        facts=defaults | facts,
        aliases=aliases,
        created_ms=round(created * 1000),
        mlflow_run_id=f"mlflow-{name}-{number}",
    )


def change(number: int, of: int, how: str = "evidence", before: int | None = None) -> Change:
    return Change(number=number, version=of, before=before, how=how, who="", when="", why="")


def inventory_of(versions: list[RegistryVersion], *others: Item) -> Inventory:
    """Return an inventory of the versions with all their files, and of other items."""
    items: list[Item] = list(others)
    for one in versions:
        kind, name = version_key(one)
        items.append(Item(kind=kind, name=name, bytes=0, used=one.created_ms / 1000, needs=lineage(one)))
        for kind, name in lineage(one):
            below: tuple[Key, ...] = ()
            if kind == "run":
                below = (("dataset", one.facts["dataset_id"]),)
            elif kind == "dataset":
                below = (("corpus", one.facts["corpus_digest"][:16]),)
            items.append(Item(kind=kind, name=name, bytes=10, used=one.created_ms / 1000, needs=below, group=one.name))
    return Inventory(items={item.key: item for item in items}, versions=tuple(versions))


def planned(inventory: Inventory, **settings: Any) -> RetentionPlan:
    return plan_retention(inventory, RetentionConfig(**settings), NOW)


@st.composite
def champions_of(draw: st.DrawFn, numbers: list[int]) -> list[Change]:
    """Draw promotions of any version, and rollbacks in the way in which roll_back() makes them."""
    changes: list[Change] = []
    # None is a rollback, and a number is a promotion.
    for promoted in draw(st.lists(st.sampled_from([None, *numbers]), max_size=10)):
        current = changes[-1].version if changes else None
        target = promoted or champion_before(changes, current, set(numbers))
        if target is not None and target != current:
            changes.append(change(len(changes) + 1, target, "hand" if promoted else "rollback", current))
    return changes


@st.composite
def histories(draw: st.DrawFn) -> Inventory:
    """Draw registered models that share runs and datasets, with promotions and rollbacks in any order."""
    versions: list[RegistryVersion] = []
    for name in draw(st.lists(st.sampled_from(["rnnlm-a", "rnnlm-b", "other"]), min_size=1, max_size=3, unique=True)):
        numbers = draw(st.lists(st.integers(1, 30), min_size=1, max_size=12, unique=True).map(sorted))
        changes = draw(champions_of(numbers))
        last = [changes[-1].version] * 5 if changes else []
        # The champion may be any version, because a user may have moved the alias in MLflow.
        champion = draw(st.sampled_from([None, *numbers, *last]))
        aliases = draw(st.dictionaries(st.sampled_from(["challenger", "production", "a"]), st.sampled_from(numbers)))
        aliases |= {"champion": champion} if champion else {}
        for number in numbers:
            shared = draw(st.sampled_from([number, numbers[0]]))
            versions.append(
                version(
                    number,
                    name,
                    aliases=tuple(sorted(alias for alias, of in aliases.items() if of == number)),
                    created=OLD + draw(st.integers(0, 499)) * DAY_SECONDS,
                    run_id=f"run-{shared}",
                    dataset_id=f"dataset-{shared}",
                    corpus_digest=f"{shared:016d}",
                    **draw(st.sampled_from([{}, *({"parent_version": str(of)} for of in numbers)])),
                    comparison=draw(st.sampled_from([None, 1, 2, 3, 4])),
                    changes=[one for one in changes if one.version == number],
                )
            )
    return inventory_of(versions)


RETENTIONS = st.builds(
    RetentionConfig,
    versions=st.integers(1, 4),
    champions=st.integers(1, 4),
    datasets=st.integers(1, 3),
    days=st.integers(0, 400),
    recent_hours=st.sampled_from([0.0, 24.0]),
)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(histories(), RETENTIONS)
def test_a_plan_is_final_and_keeps_what_aliases_and_kept_items_need(
    inventory: Inventory, config: RetentionConfig
) -> None:
    plan = plan_retention(inventory, config, NOW)
    removed = {item.key for item in plan.removed}
    assert removed | set(plan.kept) == set(inventory.items)
    assert not removed & set(plan.kept)
    for one in inventory.versions:
        if one.aliases:
            assert version_key(one) in plan.kept
            assert not removed & set(lineage(one))
    for key in plan.kept:
        assert not removed & set(inventory.items[key].needs)
    items = {key: item for key, item in inventory.items.items() if key in plan.kept}
    versions = tuple(one for one in inventory.versions if version_key(one) in plan.kept)
    rest = Inventory(items=items, versions=versions)
    assert plan_retention(rest, config, NOW).removed == ()


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(histories(), RETENTIONS)
def test_kept_versions_keep_the_rollbacks_and_the_number_of_comparisons(
    inventory: Inventory, config: RetentionConfig
) -> None:
    """Removing the other versions changes neither the possible rollbacks nor the number of comparisons.

    This holds although the tags of removed versions, which contain a part of the history, are lost.
    """

    def highest(versions: list[RegistryVersion], champion: int | None) -> int:
        return max((one.comparison or 0 for one in versions if one.parent == champion), default=0)

    for versions in by_name(inventory.versions).values():
        champion = next((one.number for one in versions if "champion" in one.aliases), None)
        living = [one for one in versions if one.number in kept_versions(versions, config)]
        before = rollback_chain(versions, champion, config.champions)
        assert rollback_chain(living, champion, config.champions) == before
        assert champion is None or highest(living, champion) == highest(versions, champion)


def test_the_best_champion_of_the_month_outlives_many_that_replaced_it() -> None:
    """The best champion of the month is kept, even if many versions have replaced it.

    Each candidate is compared with this champion, so that small losses cannot add up.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    versions = [
        version(
            number,
            aliases=("champion",) if number == 9 else (),
            changes=[change(number, number, "evidence", number - 1 or None).model_copy(update={"when": now})],
            alias="champion",
            best_version="1",
        )
        for number in range(1, 10)
    ]
    config = RetentionConfig(versions=2, champions=1)
    kept = kept_versions(versions, config)
    assert set(kept) == {1, 2, 8, 9}
    left = [one for one in versions if one.number in kept]
    best = best_champion(left, 9, within=BEST_WITHIN)
    assert best is not None
    assert best.number == 1
    assert kept_versions(left, config) == kept


def test_versions_are_removed_before_what_they_need() -> None:
    versions = [version(number) for number in range(1, 9)]
    removed = [item.kind for item in planned(inventory_of(versions), versions=2).removed]
    assert removed == sorted(removed, key=ITEM_KINDS.index)
    assert removed[:6] == ["version"] * 6
    assert removed[-1] == "corpus"


def test_a_thousand_nights_are_bounded() -> None:
    """The number of kept versions is bounded if a version is added every night and a prune runs every week."""
    config = RetentionConfig(versions=5, champions=3, datasets=2, days=30)
    versions: list[RegistryVersion] = []
    changes = 0
    for night in range(1, 1_001):
        now = night * DAY_SECONDS
        promoted = night % 10 == 1
        changes += promoted
        if promoted:
            versions = [one.model_copy(update={"aliases": ()}) for one in versions]
        new = version(
            night,
            created=now,
            aliases=("champion",) if promoted else ("challenger",),
            changes=[change(changes, night)] if promoted else [],
        )
        versions = [
            one.model_copy(update={"aliases": tuple(alias for alias in one.aliases if alias != "challenger")})
            for one in versions
        ]
        versions.append(new)
        if night % 7 == 0:
            plan = plan_retention(inventory_of(versions), config, now)
            versions = [one for one in versions if ("version", f"{one.name}/{one.number}") in plan.kept]
            # These are at most 5 last versions, 1 champion, 3 earlier champions, and 1 version with the last
            # comparison.
            assert len(versions) <= 5 + 1 + 3 + 1


@pytest.mark.parametrize(
    ("item", "kept"),
    [
        (Item(kind="run", name="young", bytes=1, used=NOW - 5 * DAY_SECONDS, finished=False), True),
        (Item(kind="run", name="forgotten", bytes=1, used=NOW - 50 * DAY_SECONDS, finished=False), False),
        (Item(kind="run", name="unregistered", bytes=1, used=NOW - 5 * DAY_SECONDS), True),
        (Item(kind="run", name="pruned", bytes=1, used=NOW - 5 * DAY_SECONDS), False),
        # A run that was used an hour ago counts as in use.
        (Item(kind="run", name="pruned", bytes=1, used=NOW - 3_600), True),
        (Item(kind="corpus", name="alone", bytes=1, used=NOW - 5 * DAY_SECONDS), False),
        (Item(kind="corpus", name="alone", bytes=1, used=NOW - 3_600), True),
        (Item(kind="ngram", name="cache", bytes=1, used=NOW - 5 * DAY_SECONDS), True),
        (Item(kind="ngram", name="cache", bytes=1, used=NOW - 50 * DAY_SECONDS), False),
        (Item(kind="leftover", name="runs/.a.replaced", bytes=1, used=NOW - 2 * DAY_SECONDS), False),
        (Item(kind="mlflow-run", name="history", bytes=1, used=NOW - 29 * DAY_SECONDS), True),
        (Item(kind="mlflow-run", name="history", bytes=1, used=NOW - 31 * DAY_SECONDS), False),
    ],
    ids=lambda value: (
        f"{value.name}-{(NOW - value.used) / DAY_SECONDS:.1f}d" if isinstance(value, Item) else str(value)
    ),
)
def test_what_no_version_needs_is_kept_by_age(item: Item, kept: bool) -> None:
    inventory = Inventory(items={item.key: item, **used_daily(NOW)}, pruned_runs=frozenset({"pruned"}))
    assert (item.key in planned(inventory).kept) == kept


def used_daily(last: float, days: int = 60) -> dict[Key, Item]:
    """Return items of a home that was used on each of the days before `last`."""
    items = [Item(kind="note", name=f"{last}-{day}", bytes=1, used=last - day * DAY_SECONDS) for day in range(days)]
    return {item.key: item for item in items}


@pytest.mark.parametrize("ahead_days", [0, 40, 365, 3_650])
@pytest.mark.parametrize("nights_ahead", [0, 1, 3])
@pytest.mark.parametrize("put_back", [False, True])
def test_a_clock_that_was_ahead_removes_nothing_young(ahead_days: int, nights_ahead: int, put_back: bool) -> None:
    """Items younger than 28 days of use are kept, even if nightly runs took place while the clock was ahead."""
    wrong = NOW + ahead_days * DAY_SECONDS
    ages = range(2, 28 - nights_ahead)
    young = [
        Item(kind=kind, name=f"{kind}{age}", bytes=1, used=NOW - age * DAY_SECONDS, finished=finished)
        for age in ages
        for kind, finished in (("run", False), ("run", True), ("mlflow-run", True), ("scores", True))
    ]
    used = used_daily(NOW) | used_daily(wrong + nights_ahead * DAY_SECONDS, nights_ahead)
    inventory = Inventory(items=used | {item.key: item for item in young})
    now = NOW + nights_ahead * DAY_SECONDS if put_back else wrong + nights_ahead * DAY_SECONDS
    plan = plan_retention(inventory, RetentionConfig(), now)
    assert {item.key for item in young} <= set(plan.kept)


def test_the_days_of_use_bound_what_is_kept() -> None:
    """A home that is used once a week or month keeps no more caches than one that is used daily."""
    for pause in (1, 7, 31):
        used = [NOW - night * pause * DAY_SECONDS for night in range(100)]
        items = [Item(kind="ngram", name=str(time), bytes=1, used=time) for time in used]
        plan = planned(Inventory(items={item.key: item for item in items}))
        assert len(plan.kept) == 31  # The caches of today and of the 30 previous days of use are kept.


def test_what_a_living_flow_run_may_read_is_kept() -> None:
    found = Item(kind="corpus", name="c", bytes=1, used=NOW - 3 * DAY_SECONDS)
    inventory = Inventory(items={found.key: found})
    assert found.key in plan_retention(inventory, RetentionConfig(), NOW, in_use_since=NOW - 4 * DAY_SECONDS).kept
    assert found.key not in plan_retention(inventory, RetentionConfig(), NOW, in_use_since=NOW - 60).kept


def test_the_last_datasets_of_each_corpus_are_kept() -> None:
    datasets = [
        Item(kind="dataset", name=f"{corpus}{at}", bytes=1, used=OLD + at, group=corpus)
        for corpus in ("news", "mail")
        for at in range(4)
    ]
    plan = planned(Inventory(items={item.key: item for item in datasets}), datasets=2)
    assert {name for _, name in plan.kept} == {"news2", "news3", "mail2", "mail3"}


def test_a_version_that_got_an_alias_since_the_plan_is_not_removed() -> None:
    versions = [version(number) for number in range(1, 8)]
    plan = planned(inventory_of(versions), versions=2)
    promoted = [one.model_copy(update={"aliases": ("champion",)}) if one.number == 1 else one for one in versions]
    assert removable_versions(versions, plan.removed, RetentionConfig(versions=2)) == {1, 2, 3, 4, 5}
    assert removable_versions(promoted, plan.removed, RetentionConfig(versions=2)) == {2, 3, 4, 5}
