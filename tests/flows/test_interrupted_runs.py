"""An interrupted run is started again as long as its attempts store something; else people are told."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed, Running

from flows.operations.interrupted_runs import ATTEMPTS, resume_interrupted
from rnnlm.home import Home

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


def newest(client: SyncPrefectClient, deployment: UUID) -> FlowRun:
    runs = [run for run in client.read_flow_runs() if run.deployment_id == deployment]
    assert all(run.created is not None for run in runs)
    return max(runs, key=lambda run: str(run.created))


def interrupt(client: SyncPrefectClient, deployment: UUID, home: Home, *, checkpoint: bool) -> FlowRun:
    """Let the deployment's newest run begin, perhaps write a checkpoint, and be killed."""
    run = newest(client, deployment)
    client.set_flow_run_state(run.id, Running(), force=True)
    if checkpoint:
        (home.runs / "a" / "checkpoints" / f"step-{run.id}").mkdir(parents=True)
    client.set_flow_run_state(run.id, Crashed(), force=True)
    return run


def test_runs_that_make_progress_are_started_again_however_often(
    client: SyncPrefectClient, deployment: UUID, home: Home
) -> None:
    for _ in range(ATTEMPTS + 3):
        run = interrupt(client, deployment, home, checkpoint=True)
        assert resume_interrupted(client, home) == 1
        assert resume_interrupted(client, home) == 0  # it has its successor
        assert newest(client, deployment).id != run.id


def test_runs_without_progress_are_given_up_and_their_state_says_so(
    client: SyncPrefectClient, deployment: UUID, home: Home
) -> None:
    interrupt(client, deployment, home, checkpoint=True)
    assert resume_interrupted(client, home) == 1
    for _ in range(ATTEMPTS):
        interrupt(client, deployment, home, checkpoint=False)
        assert resume_interrupted(client, home) == 1
    last = interrupt(client, deployment, home, checkpoint=False)
    assert resume_interrupted(client, home) == 0
    state = client.read_flow_run(last.id).state
    assert state is not None
    assert state.is_crashed()
    assert str(state.message).startswith(f"Interrupted {ATTEMPTS + 1} times in a row without any progress")
    timestamp = state.timestamp
    resume_interrupted(client, home)  # told once
    again = client.read_flow_run(last.id).state
    assert again is not None
    assert again.timestamp == timestamp
