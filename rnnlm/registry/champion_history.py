"""The history of champions, to which a tag is added when a version becomes champion.

The tag of the version is named `promotion.0003`, numbered over all changes of the registered model. Its value is a
Change as JSON.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from rnnlm.registry.registry_version import RegistryVersion, aliases_of, read_versions, set_facts
from rnnlm.runtime.current_user import who
from rnnlm.storage.records import Record

if TYPE_CHECKING:
    from mlflow import MlflowClient

PROMOTION_TAG = "promotion."
# The ways in which a version becomes champion. "hand" means that a user decided without evidence.
How = Literal["first", "evidence", "hand", "rollback"]


class Change(Record):
    """A promotion or rollback that made a version the champion."""

    number: int  # The number of the change, counted from 1 on for each registered model.
    version: int
    before: int | None  # The number of the previous champion, or None if there was none.
    how: How
    who: str  # The user and machine that made the change, as `user@host`.
    when: str  # The time of the change in ISO 8601, UTC.
    why: str


def read_history(versions: Iterable[RegistryVersion]) -> list[Change]:
    """Return all changes, the oldest one first, from the existing versions of one registered model.

    Releases of rnnlm without this history only set the `alias` tag.
    """
    changes = []
    for version in versions:
        facts = version.facts
        found = [Change(**json.loads(value)) for key, value in facts.items() if key.startswith(PROMOTION_TAG)]
        if not found and facts.get("alias") == "champion":
            found = [
                Change(
                    number=0,
                    version=version.number,
                    before=None,
                    how="evidence",
                    who="unknown",
                    when=version.created,
                    why=facts.get("reason", ""),
                )
            ]
        changes += found
    return sorted(changes, key=lambda change: (change.number, change.version))


def champion_before(history: list[Change], current: int | None, living: set[int]) -> int | None:
    """Return the version to roll back to: the last champion before the current one that was not rolled back.

    A promotion pushes a version onto a stack and a rollback pops it, so two successive rollbacks go back by two
    champions. If a user moved the alias in MLflow to the previous champion, this counts as a rollback, otherwise as a
    promotion. A promotion that was killed before it moved the alias looks like such a rollback.
    """
    stack: list[int] = []
    for change in history:
        if change.how == "rollback" and change.version in stack:
            while stack[-1] != change.version:
                stack.pop()
        elif not stack or stack[-1] != change.version:
            stack.append(change.version)
    if current in stack and history[-1].before == current:
        while stack.pop() != current:
            pass
    return next((version for version in reversed(stack) if version in living and version != current), None)


def set_champion(client: "MlflowClient", version: RegistryVersion, how: How, why: str) -> Change:
    """Record the change, then move the alias. The caller must hold the registered model's lock.

    If the process is killed between these two steps, the old champion remains, because the alias determines the
    champion.
    """
    name, number = version.name, version.number
    aliases = aliases_of(client, name)
    before = aliases.get("champion")
    past = read_history(read_versions(client, name))
    change = Change(
        number=1 + max((old.number for old in past), default=0),
        version=number,
        before=None if before is None else int(before),
        how=how,
        who=who(),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        why=why,
    )
    record = {f"{PROMOTION_TAG}{change.number:04d}": json.dumps(change.model_dump()), "replaced_by": None}
    set_facts(client, name, number, record)
    client.set_registered_model_alias(name, "champion", str(number))
    if before is not None:
        set_facts(client, name, int(before), {"replaced_by": str(number)})
    if str(aliases.get("challenger")) == str(number):
        client.delete_registered_model_alias(name, "challenger")
    return change
