"""The history of champions is a stack of promotions, which includes manual promotions."""

import getpass
import socket
from datetime import UTC, datetime

import pytest

from rnnlm.errors import ModelError
from rnnlm.registry.champion_history import Change, champion_before, read_history
from rnnlm.registry.lineage import show_version
from rnnlm.registry.mlflow_database import champions_in_file
from rnnlm.registry.model_lookup import list_models, model_folder
from rnnlm.registry.promotion_commands import promote_by_hand, roll_back
from rnnlm.registry.registry_version import RegistryVersion, champion_of, read_version, read_versions
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.rnnlm.registry.contest import NAME, Contest


def changes(*steps: int) -> list[Change]:
    """Return the changes by which these versions became champion. A negative number is a rollback to the version."""
    return [
        Change(
            number=number,
            version=abs(step),
            before=None,
            how="rollback" if step < 0 else "evidence",
            who="",
            when="",
            why="",
        )
        for number, step in enumerate(steps, start=1)
    ]


@pytest.mark.parametrize(
    ("steps", "current", "before"),
    [
        ((1, 2, 3), 3, 2),
        # A second rollback returns to the champion before version 2, and does not undo the first rollback.
        ((1, 2, 3, -2), 2, 1),
        ((1, 2, 3, -2, -1), 1, None),
        ((1, 2, 3, -2, 4), 4, 2),  # Version 3 was rolled back, so no rollback returns to it.
        ((1, 2, 1), 1, 2),
        ((1, 2, 2), 2, 1),  # The promotion was recorded twice, because a process was killed before it moved the alias.
        ((1,), 1, None),
        ((), None, None),
        ((1, 2), 7, 2),  # In this case, a user has moved the alias in MLflow to version 7.
        ((1, 2), None, 2),  # In this case, a user has removed the alias champion in MLflow.
    ],
)
def test_a_rollback_leads_to_the_champion_before(steps: tuple[int, ...], current: int | None, before: int) -> None:
    assert champion_before(changes(*steps), current, living={1, 2, 3, 4, 7}) == before


def test_deleted_versions_are_passed_over() -> None:
    assert champion_before(changes(1, 2, 3), 3, living={1, 3}) == 1


def test_versions_without_a_history_say_by_their_alias_that_they_were_champion() -> None:
    def registered(number: int, alias: str) -> RegistryVersion:
        facts = {"alias": alias, "reason": "better"}
        return RegistryVersion(name=NAME, number=number, created_ms=1_700_000_000_000, facts=facts)

    history = read_history([registered(2, "champion"), registered(3, "challenger"), registered(1, "champion")])
    assert [(change.version, change.when, change.why) for change in history] == [
        (1, "2023-11-14T22:13:20+00:00", "better"),
        (2, "2023-11-14T22:13:20+00:00", "better"),
    ]


def champion(contest: Contest) -> int:
    return next(version.version for version in list_models(contest.home) if "champion" in version.aliases)


@pytest.mark.long
def test_promotion_by_hand_and_rollback_are_recorded_with_who_when_and_why(contest: Contest) -> None:
    contest.register("good")
    contest.register("poor")
    before = datetime.now(UTC).isoformat(timespec="seconds")
    change = promote_by_hand(contest.home, NAME, "2", "shorter answers")
    assert champion(contest) == 2
    assert (change.version, change.before, change.how, change.why) == (2, 1, "hand", "shorter answers")
    assert change.who == f"{getpass.getuser()}@{socket.gethostname()}"
    assert before <= change.when <= datetime.now(UTC).isoformat(timespec="seconds")
    # The version has only the alias champion, so no version is challenger.
    assert [version.aliases for version in list_models(contest.home)] == [("champion",), ()]

    taken_back = roll_back(contest.home, NAME)
    assert champion(contest) == 1
    assert (taken_back.version, taken_back.before, taken_back.why) == (1, 2, "no reason given")
    with reaching_mlflow(contest.home) as client:
        history = read_history(read_versions(client, NAME))
    assert [(one.number, one.version, one.how) for one in history] == [
        (1, 1, "first"),
        (2, 2, "hand"),
        (3, 1, "rollback"),
    ]
    assert show_version(contest.home, NAME, "2").changes == (change,)
    with reaching_mlflow(contest.home) as client:
        assert read_version(client, NAME, 2).facts["replaced_by"] == "1"
        assert "replaced_by" not in read_version(client, NAME, 1).facts


@pytest.mark.long
def test_an_impossible_promotion_or_rollback_is_an_error(contest: Contest) -> None:
    with pytest.raises(ModelError, match="no such version"):
        promote_by_hand(contest.home, NAME, "1")
    with pytest.raises(ModelError, match="no such model"):
        roll_back(contest.home, NAME)
    contest.register("good")
    with pytest.raises(ModelError, match="already the champion"):
        promote_by_hand(contest.home, NAME, "1")
    with pytest.raises(ModelError, match="no champion is known before version 1"):
        roll_back(contest.home, NAME)
    with pytest.raises(ModelError, match="expected at most 1,000"):
        promote_by_hand(contest.home, NAME, "1", "x" * 1001)


@pytest.mark.slow
def test_a_champion_by_hand_is_what_the_next_candidate_must_beat(contest: Contest) -> None:
    contest.register("good")
    contest.register("poor")
    promote_by_hand(contest.home, NAME, "challenger")
    fair = contest.register("fair")
    assert (fair.version, fair.alias) == (3, "champion")
    assert "champion version 2" in fair.reason
    assert model_folder(contest.home, f"models:/{NAME}@champion") == model_folder(contest.home, f"models:/{NAME}/3")


@pytest.mark.long
def test_champions_read_from_the_file_are_those_of_mlflows_client(decided: Contest) -> None:
    with reaching_mlflow(decided.home) as client:
        told, champion = read_versions(client, NAME), champion_of(client, NAME)
    found = champions_in_file(decided.home.mlflow_database)
    number, versions = found[NAME]
    assert list(found) == [NAME]
    assert champion is not None
    assert number == champion.number
    facts = {version.number: (version.facts, version.created) for version in versions}
    assert facts == {one.number: (one.facts, one.created) for one in told}
    assert read_history(versions) == read_history(told)
