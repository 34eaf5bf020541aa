"""Runs whose process was killed: each is told by the lock that its process held, and gets a truthful state.

Every flow run of ours locks a file in the home while its process lives; the kernel frees the lock however the process
ends. Prefect alone would leave such a run `Running`, and its place in a concurrency limit taken.
"""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rnnlm.home import Home
from rnnlm.tracking.dead_mlflow_runs import end_dead_mlflow_runs

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State

logger = logging.getLogger(__name__)
SUFFIX = ".flow-run"
WORK_POOL = "rnnlm"  # of prefect.yaml
STARTS_WITHIN = timedelta(minutes=15)  # a worker starts the process of a pending run in seconds
NEVER_STARTED = f"Its process did not start within {STARTS_WITHIN.seconds // 60} minutes; the worker was stopped."
WAS_KILLED = "Its process was killed: SIGKILL, want of memory, a power cut."
FORGOTTEN_AFTER_SECONDS = 30 * 24 * 3600


def lock_file(home: Home, run_id: UUID) -> Path:
    """What the process of a flow run holds locked."""
    return locks_of(home) / f"{run_id}{SUFFIX}"


def locks_of(home: Home) -> Path:
    return home.root / "locks" / "flow-runs"


def unlocked_name(final: Path) -> Path:
    """What the file is called until its process has locked it; a process killed then leaves it."""
    return final.with_name(f".{final.name}")


def run_of(path: Path) -> UUID:
    return UUID(path.stem.removeprefix("."))


def just_made(path: Path) -> bool:
    """True where the file's process may still be about to lock it."""
    return path.name.startswith(".") and time.time() - path.stat().st_mtime < STARTS_WITHIN.total_seconds()


def settle_dead_runs(home: Home) -> int:
    """Crash the flow and task runs of this home, and end the MLflow runs, whose process is gone. Returns how many."""
    from prefect.client.orchestration import get_client

    settled = 0
    with get_client(sync_client=True) as client:
        for path in sorted(locks_of(home).glob(f"*{SUFFIX}")):
            with held_no_more(path) as dead:
                found = settle(client, run_of(path)) if dead and not just_made(path) else None
                settled += found or 0
                # Not found: deleted, or a run of another server than the one asked now, which may be asked again.
                if found is not None or (dead and time.time() - path.stat().st_mtime > FORGOTTEN_AFTER_SECONDS):
                    path.unlink()
        settled += sum(never_started(client))
    return settled + end_dead_mlflow_runs(home)


@contextlib.contextmanager
def held_no_more(path: Path) -> Iterator[bool]:
    """True where the process that locked the file has ended; nobody else settles its run meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # another process has settled the run
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield path.exists()
    finally:
        os.close(descriptor)


def settle(client: "SyncPrefectClient", run_id: UUID) -> int | None:
    """Give the flow run and its task runs their final states, where they have none.

    Returns how many got one; None where the server does not know the run.
    """
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterId,
        TaskRunFilter,
        TaskRunFilterState,
        TaskRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.exceptions import ObjectNotFound

    try:
        run = client.read_flow_run(run_id)
    except ObjectNotFound:
        return None
    if run.state is not None and run.state.is_completed():
        return 0
    unfinished = TaskRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])
    tasks = client.read_task_runs(
        flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run_id])),
        task_run_filter=TaskRunFilter(state=TaskRunFilterState(type=unfinished)),
    )
    for task in tasks:
        client.set_task_run_state(task.id, final_state(task.state), force=True)
    if run.state is not None and run.state.is_final():
        return len(tasks)
    client.set_flow_run_state(run_id, final_state(run.state), force=True)
    logger.warning("flow run %s: its process was killed; it counts as ended now", run.name)
    return len(tasks) + 1


def final_state(before: "State[Any] | None") -> "State[Any]":
    """What a run has come to whose process is gone."""
    from prefect.states import Cancelled, Crashed

    return Cancelled() if before is not None and before.is_cancelling() else Crashed(message=WAS_KILLED)


def never_started(client: "SyncPrefectClient") -> Iterator[int]:
    """Crash what a worker took and did not start. Yields 1 for each."""
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
        WorkPoolFilter,
        WorkPoolFilterName,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    pending = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PENDING]))
    for run in client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=pending),
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[WORK_POOL])),
    ):
        if run.state is not None and run.state.timestamp < datetime.now(UTC) - STARTS_WITHIN:
            client.set_flow_run_state(run.id, Crashed(message=NEVER_STARTED), force=True)
            logger.warning("flow run %s: %s", run.name, NEVER_STARTED)
            yield 1
