"""Promotion of a version by a user, without evidence, and rollback. The history records the user, time and reason."""

from rnnlm.errors import ModelError
from rnnlm.registry.champion_history import Change, champion_before, read_history, set_champion
from rnnlm.registry.decision_text import WAITS
from rnnlm.registry.model_lookup import find_version, known_models, registered_versions
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.registry.registry_version import RegistryVersion, champion_of, read_versions
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import reaching_mlflow

LONGEST_REASON = 1_000  # The maximum number of characters in the reason for a promotion.
NO_REASON = "no reason given"


def promote_by_hand(home: Home, name: str, wanted: str, reason: str = "") -> Change:
    """Make the version `wanted`, a number or an alias, the champion. Raise ModelError if it does not exist."""
    why = checked_reason(reason)
    version = version_to_promote(home, name, wanted)
    with reaching_mlflow(home) as client, registry_lock(home, name):
        champion = champion_of(client, name)
        if champion is not None and champion.number == version.number:
            raise ModelError(f"{name} version {version.number}: is already the champion")
        return set_champion(client, version, "hand", why)


def version_to_promote(home: Home, name: str, wanted: str) -> RegistryVersion:
    """Return the version `wanted`, a number or an alias. Raise ModelError if it does not exist."""
    alias, number = (None, wanted) if wanted.isdecimal() else (wanted.removeprefix("@"), None)
    version = find_version(home, name, alias, number)
    if version is None:
        raise ModelError(f"{name} version {wanted}: no such version;\n{known_models(home)}")
    return version


def waiting_version(home: Home, name: str) -> str:
    """Return the number of the newest version that waits for approval. Raise ModelError if there is none."""
    waiting = [
        number
        for number, version in registered_versions(home, name).items()
        if version.facts.get("reason", "").startswith(WAITS) and "champion" not in version.aliases
    ]
    if not waiting:
        raise ModelError(
            f"{name}: no version waits for approval; name one, such as {name}/2 or {name}@challenger\n"
            "(rnnlm models lists them)"
        )
    return str(max(waiting))


def roll_back(home: Home, name: str, reason: str = "") -> Change:
    """Make the previous champion the champion again. Raise ModelError if there was none."""
    why = checked_reason(reason)
    if not registered_versions(home, name):
        raise ModelError(f"{name}: no such model;\n{known_models(home)}")
    with reaching_mlflow(home) as client, registry_lock(home, name):
        champion = champion_of(client, name)
        current = champion.number if champion else None
        versions = {version.number: version for version in read_versions(client, name)}
        before = champion_before(read_history(versions.values()), current, set(versions))
        if before is None:
            raise ModelError(
                f"{name}: no champion is known before version {current};\n"
                f"rnnlm models lists the versions, rnnlm promote {name}/VERSION makes one champion"
            )
        return set_champion(client, versions[before], "rollback", why)


def checked_reason(reason: str) -> str:
    if len(reason) > LONGEST_REASON:
        raise ModelError(f"--reason: {len(reason):,} characters, expected at most {LONGEST_REASON:,}")
    return reason.strip() or NO_REASON
