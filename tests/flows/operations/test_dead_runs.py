"""A flow run whose process was killed gets the correct state. A run with a running process is not changed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, WorkPool
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled, Completed, Failed, Pending, Running

from flows.operations import dead_runs
from flows.operations.dead_runs import WAS_KILLED, settle_dead_runs
from flows.operations.prefect_query import PrefectQuery
from flows.operations.run_locks import find_dead_runs, lock_file, unlocked_name
from flows.service.supervisor import WHAT_HAPPENED
from rnnlm.runtime import recent_times
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[3]
FLOW = """
import time
from prefect import flow, task
from flows.operations.flow_start import hold_run_lock

@task
def work():
    print("working", flush=True)
    time.sleep(600)

@flow(name="inner")
def inner():
    hold_run_lock()
    work()

@flow(name="outer")
def outer():
    hold_run_lock()
    inner()

outer()
"""


@pytest.fixture
def client(prefect_server: None) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def process(home: Home, prefect_server: None) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that is running a task of a subflow."""
    environment = os.environ | {"PREFECT_API_URL": str(PREFECT_API_URL.value()), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", FLOW], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"
            yield process
        finally:
            process.kill()


def runs(home: Home, client: SyncPrefectClient) -> list[FlowRun]:
    """Return the flow runs that have a lock file in the rnnlm home."""
    ids = [UUID(path.stem) for path in (home.root / "locks" / "flow-runs").iterdir()]
    return [client.read_flow_run(run_id) for run_id in ids]


def test_what_a_killed_process_ran_is_crashed_with_its_subflows_and_tasks(
    home: Home, client: SyncPrefectClient, process: subprocess.Popen[str]
) -> None:
    query = PrefectQuery(str(PREFECT_API_URL.value()))
    before = runs(home, client)
    assert len(before) == 2
    assert not find_dead_runs(home, query)
    assert settle_dead_runs(home) == 0  # The process is still running, so there is nothing to settle.
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Wait for the states of the tasks, which reach the server later than those of the runs.
    assert poll_until(lambda: unfinished_tasks(client, before) != [], 60, every_seconds=0.1)
    assert find_dead_runs(home, query)
    assert settle_dead_runs(home) >= 3
    assert not find_dead_runs(home, query)
    for run in before:
        state = client.read_flow_run(run.id).state
        assert state is not None
        assert (state.name, state.message) == ("Crashed", WAS_KILLED)
    assert unfinished_tasks(client, before) == []
    assert settle_dead_runs(home) == 0
    assert runs(home, client) == []


@pytest.mark.parametrize("state", [Failed(), Cancelled(), Completed()])
def test_a_run_with_an_outcome_is_not_dead(home: Home, client: SyncPrefectClient, state: State[None]) -> None:
    from prefect import flow

    run = client.create_flow_run(flow(lambda: None, name="ended"), state=Running())
    lock = lock_file(home, run.id)
    lock.parent.mkdir(parents=True)
    lock.touch()
    query = PrefectQuery(str(PREFECT_API_URL.value()))
    assert find_dead_runs(home, query)
    client.set_flow_run_state(run.id, state, force=True)
    assert not find_dead_runs(home, query)
    settle_dead_runs(home)
    assert not lock.exists()


def test_a_cancelled_run_is_not_called_killed(
    home: Home, client: SyncPrefectClient, process: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    before = runs(home, client)
    assert poll_until(lambda: unfinished_tasks(client, before) != [], 60, every_seconds=0.1)
    for run in before:
        client.set_flow_run_state(run.id, State(type="CANCELLING"), force=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    query = PrefectQuery(str(PREFECT_API_URL.value()))
    dead = find_dead_runs(home, query)
    assert {WHAT_HAPPENED[run["state"]["type"]] for run in dead} == {"it was cancelled"}
    assert settle_dead_runs(home) >= 2
    assert unfinished_tasks(client, before) == []
    for run in before:
        state = client.read_flow_run(run.id).state
        assert state is not None
        assert state.is_cancelled()
    told = [message for message in caplog.messages if message.startswith("flow run ")]
    assert len(told) == 2
    assert all(message.endswith(": it was cancelled") for message in told)


def unfinished_tasks(client: SyncPrefectClient, of: list[FlowRun]) -> list[str]:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    found = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id for run in of])))
    return [task.name for task in found if task.state is None or not task.state.is_final()]


@pytest.mark.parametrize("clock", ["right", "put back"])
def test_what_a_worker_took_and_never_started_is_crashed(
    home: Home, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch, clock: str
) -> None:
    from prefect import flow
    from prefect.client.schemas.actions import WorkPoolCreate

    pool: WorkPool = client.create_work_pool(WorkPoolCreate(name="rnnlm", type="process"), overwrite=True)
    deployment = client.create_deployment(
        client.create_flow(flow(lambda: None, name="never")), "never", work_pool_name=pool.name
    )
    taken = client.create_flow_run_from_deployment(deployment, state=Pending())
    assert settle_dead_runs(home) == 0  # The run keeps its state, because the worker may still start the process.
    if clock == "right":
        monkeypatch.setattr(dead_runs, "STARTS_WITHIN", timedelta(seconds=-60))
    else:  # The worker's clock was ahead when it took the run.
        right = time.time() - 400 * 86_400
        monkeypatch.setattr(recent_times, "time", SimpleNamespace(time=lambda: right))
    assert settle_dead_runs(home) == 1
    state = client.read_flow_run(taken.id).state
    assert state is not None
    assert state.is_crashed()
    assert state.timestamp <= datetime.now(UTC)
    assert settle_dead_runs(home) == 0


def test_a_run_of_another_server_is_kept(home: Home, client: SyncPrefectClient) -> None:
    folder = home.root / "locks" / "flow-runs"
    folder.mkdir(parents=True)
    lock = folder / "00000000-0000-0000-0000-000000000000.flow-run"
    lock.touch()
    assert settle_dead_runs(home) == 0
    assert lock.exists()
    os.utime(lock, (0, 0))
    settle_dead_runs(home)
    assert not lock.exists()


def test_a_half_made_lock_does_not_stop_the_settling(home: Home, client: SyncPrefectClient) -> None:
    from prefect import flow
    from prefect.states import Running

    run = client.create_flow_run(flow(lambda: None, name="beginning"), state=Running())
    lock = unlocked_name(lock_file(home, run.id))
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert settle_dead_runs(home) == 0  # The lock file is new, so the run's process may be about to lock it.
    assert lock.exists()
    long_ago = time.time() - 2 * dead_runs.STARTS_WITHIN.total_seconds()
    os.utime(lock, (long_ago, long_ago))
    assert settle_dead_runs(home) == 1
    assert not lock.exists()
    state = client.read_flow_run(run.id).state
    assert state is not None
    assert state.is_crashed()
