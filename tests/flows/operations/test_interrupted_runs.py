"""An interrupted run is restarted as long as each attempt stores new results.

After several attempts in a row without new results, the run is not restarted, and its state says so.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, PREFECT_API_URL
from prefect.states import Cancelled, Completed, Crashed, Failed, Pending, Running

from flows.operations.flow_start import fail_with_unknown_parameters
from flows.operations.interrupted_runs import ATTEMPTS, STOPPED, crashed_runs, mark_stopped, resume_interrupted
from flows.operations.prefect_query import PrefectQuery
from flows.pipeline_flow import pipeline_flow
from rnnlm.storage.home import Home

pytestmark = pytest.mark.long


@pytest.fixture
def client(prefect_server: None) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def deployment(client: SyncPrefectClient, request: pytest.FixtureRequest) -> UUID:
    name = request.node.name
    identity = client.create_deployment(client.create_flow(flow(lambda: None, name="pipeline")), name)
    client.create_flow_run_from_deployment(identity)
    return identity


def runs_of(client: SyncPrefectClient, deployment: UUID) -> list[FlowRun]:
    return [run for run in client.read_flow_runs() if run.deployment_id == deployment]


def newest(client: SyncPrefectClient, deployment: UUID) -> FlowRun:
    runs = runs_of(client, deployment)
    assert all(run.created is not None for run in runs)
    return max(runs, key=lambda run: str(run.created))


def resumed_runs(client: SyncPrefectClient, deployment: UUID, home: Home) -> int:
    """Resume interrupted runs, and return the number of new runs of this deployment.

    The server may also have runs of other tests.
    """
    before = len(runs_of(client, deployment))
    resume_interrupted(client, home)
    return len(runs_of(client, deployment)) - before


def interrupt(client: SyncPrefectClient, deployment: UUID, home: Home, *, checkpoint: bool) -> FlowRun:
    """Let the deployment's newest run begin, write a checkpoint if `checkpoint` is true, and simulate a kill."""
    run = newest(client, deployment)
    client.set_flow_run_state(run.id, Running(), force=True)
    if checkpoint:
        (home.runs / "a" / "checkpoints" / f"step-{run.id}").mkdir(parents=True)
    client.set_flow_run_state(run.id, Crashed(), force=True)
    return run


def move_start(run: FlowRun, by: timedelta) -> None:
    """Change a run's start time in the server's database, because the server's API would store the current time."""
    database = PREFECT_API_DATABASE_CONNECTION_URL.value().partition("///")[2]
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        moved = f"{datetime.now(UTC) + by:%Y-%m-%d %H:%M:%S.%f}"
        changed = connection.execute("update flow_run set start_time = ? where id = ?", (moved, str(run.id)))
        assert changed.rowcount == 1


def test_runs_that_make_progress_are_started_again_however_often(
    client: SyncPrefectClient, deployment: UUID, home: Home
) -> None:
    for _ in range(ATTEMPTS + 3):
        run = interrupt(client, deployment, home, checkpoint=True)
        assert resumed_runs(client, deployment, home) == 1
        assert resumed_runs(client, deployment, home) == 0  # A new run already follows the interrupted one.
        assert newest(client, deployment).id != run.id


def test_runs_without_progress_are_given_up_and_their_state_says_so(
    client: SyncPrefectClient, deployment: UUID, home: Home
) -> None:
    interrupt(client, deployment, home, checkpoint=True)
    assert resumed_runs(client, deployment, home) == 1
    for _ in range(ATTEMPTS):
        interrupt(client, deployment, home, checkpoint=False)
        assert resumed_runs(client, deployment, home) == 1
    last = interrupt(client, deployment, home, checkpoint=False)
    assert resumed_runs(client, deployment, home) == 0
    state = client.read_flow_run(last.id).state
    assert state is not None
    assert state.is_crashed()
    assert str(state.message).startswith(f"Interrupted {ATTEMPTS + 1} times in a row without any progress")
    timestamp = state.timestamp
    resume_interrupted(client, home)  # The state already has the message, so a second call must not change it.
    again = client.read_flow_run(last.id).state
    assert again is not None
    assert again.timestamp == timestamp


def test_a_night_with_a_wrong_clock_does_not_hide_later_runs(
    client: SyncPrefectClient, deployment: UUID, home: Home
) -> None:
    first = newest(client, deployment)
    states: list[State[None]] = [Running(), Completed()]
    for state in states:
        client.set_flow_run_state(first.id, state, force=True)
    move_start(first, timedelta(days=400))
    client.create_flow_run_from_deployment(deployment)
    interrupt(client, deployment, home, checkpoint=False)
    assert resumed_runs(client, deployment, home) == 1


def test_a_clock_put_back_during_runs_does_not_give_up(client: SyncPrefectClient, deployment: UUID, home: Home) -> None:
    for _ in range(ATTEMPTS + 2):
        move_start(interrupt(client, deployment, home, checkpoint=False), timedelta(seconds=30))
        assert resumed_runs(client, deployment, home) == 1


def test_a_run_that_was_killed_before_it_began_is_started_again(
    client: SyncPrefectClient, deployment: UUID, home: Home
) -> None:
    """A run is started again if its process was killed before it locked its file.

    In this case, Prefect's worker has set the run to Crashed.
    """
    query, began = PrefectQuery(str(PREFECT_API_URL.value())), datetime.now(UTC)
    run = newest(client, deployment)
    client.set_flow_run_state(run.id, Pending(), force=True)
    assert str(run.id) not in {one["id"] for one in crashed_runs(query, began.isoformat())}
    client.set_flow_run_state(run.id, Crashed(message="Process exited with status code: -9"), force=True)
    assert str(run.id) in {one["id"] for one in crashed_runs(query, began.isoformat())}
    assert str(run.id) not in {one["id"] for one in crashed_runs(query, datetime.now(UTC).isoformat())}
    assert resumed_runs(client, deployment, home) == 1
    assert resumed_runs(client, deployment, home) == 0


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, None),
        ({"corpus": "zen", "seeds": 2}, None),
        # The flow knows the parameter `config`, and refuses its contents with another message.
        ({"config": {"nonsense": 1}}, None),
        ({"sed": 3}, "unknown parameters: sed; expected corpus, preset, "),
        ({"corpus": "zen", "nonsense": 1, "a": 2}, "unknown parameters: a, nonsense; expected corpus, preset, "),
    ],
)
def test_a_run_with_unknown_parameters_has_failed_and_is_not_started_again(
    client: SyncPrefectClient, deployment: UUID, home: Home, parameters: dict[str, Any], problem: str | None
) -> None:
    run = newest(client, deployment)
    given = client.create_flow_run_from_deployment(deployment, parameters=parameters)
    client.delete_flow_run(run.id)
    crashed: State[None] = Crashed(message="Process exited with status code: 1. Process exited with a general error.")
    client.set_flow_run_state(given.id, crashed, force=True)
    fail_with_unknown_parameters(pipeline_flow, given, crashed)  # Prefect's worker calls the function in the same way.
    state = client.read_flow_run(given.id).state
    assert state is not None
    if problem is None:
        assert state.is_crashed()
    else:
        assert state.is_failed()
        assert str(state.message).startswith(problem)
    assert resumed_runs(client, deployment, home) == int(problem is None)
    assert pipeline_flow.on_crashed_hooks == [fail_with_unknown_parameters]


@pytest.mark.parametrize(
    ("before", "after", "resumed"),
    [
        (Running(), STOPPED, 1),
        (Crashed(message="Execution was terminated"), STOPPED, 1),
        (Pending(), STOPPED, 1),
        (State(type="CANCELLING"), "Cancelled", 0),
        (Cancelled(), "Cancelled", 0),
        (Completed(), "Completed", 0),
        (Failed(), "Failed", 0),
    ],
)
def test_a_run_stopped_in_order_is_called_so_and_started_again_once(
    client: SyncPrefectClient, deployment: UUID, home: Home, before: State[None], after: str, resumed: int
) -> None:
    run = newest(client, deployment)
    client.set_flow_run_state(run.id, Running(), force=True)
    client.set_flow_run_state(run.id, before, force=True)
    mark_stopped(PrefectQuery(str(PREFECT_API_URL.value())), [str(run.id)])
    state = client.read_flow_run(run.id).state
    assert state is not None
    assert state.name == after
    if after == STOPPED:
        assert "the next rnnlm up starts it again" in str(state.message)
    assert resumed_runs(client, deployment, home) == resumed
    assert resumed_runs(client, deployment, home) == 0


def test_stopping_in_order_however_often_does_not_give_a_run_up(
    client: SyncPrefectClient, deployment: UUID, home: Home
) -> None:
    for _ in range(ATTEMPTS + 2):
        run = interrupt(client, deployment, home, checkpoint=False)
        mark_stopped(PrefectQuery(str(PREFECT_API_URL.value())), [str(run.id)])
        assert resumed_runs(client, deployment, home) == 1
