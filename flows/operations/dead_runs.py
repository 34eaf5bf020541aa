"""Detect runs whose process was killed, by the lock that the process held, and give them a final state.

Every flow run locks a file in the home while its process lives; the kernel releases the lock however the process ends.
Prefect by itself would leave such a run `Running` and keep its place in a concurrency limit.
"""

import contextlib
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rnnlm.home import Home
from rnnlm.registry.unfinished_models import delete_unfinished_models
from rnnlm.tracking.dead_mlflow_runs import end_dead_mlflow_runs

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State

    from flows.operations.prefect_query import PrefectQuery

logger = logging.getLogger(__name__)
LOCK_SUFFIX = ".flow-run"
WORK_POOL = "rnnlm"  # as in prefect.yaml
STARTS_WITHIN = timedelta(minutes=15)  # a worker starts the process of a pending run within seconds
NEVER_STARTED = f"Its process did not start within {STARTS_WITHIN.seconds // 60} minutes; the worker was stopped."
WAS_KILLED = "Its process was killed: SIGKILL, out of memory or a power cut."
KEEP_UNKNOWN_SECONDS = 30 * 24 * 3600  # lock files of runs that the current server does not know


def lock_folder(home: Home) -> Path:
    return home.root / "locks" / "flow-runs"


def lock_file(home: Home, run_id: UUID) -> Path:
    """The file that the flow run's process holds locked."""
    return lock_folder(home) / f"{run_id}{LOCK_SUFFIX}"


def unlocked_name(final: Path) -> Path:
    """The file's name until its process has locked it. A process killed before that leaves it under this name."""
    return final.with_name(f".{final.name}")


def may_still_be_locked(path: Path) -> bool:
    """Whether the file is so new that its process may be about to lock it."""
    return path.name.startswith(".") and age_seconds(path) < STARTS_WITHIN.total_seconds()


def age_seconds(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def settle_dead_runs(home: Home) -> int:
    """Settle what killed processes left: flow and task runs, MLflow runs, unfinished models. Returns how many."""
    from prefect.client.orchestration import get_client

    from tasks.operations.registry_turn import registry_turn

    settled = 0
    with get_client(sync_client=True) as client:
        for path in sorted(lock_folder(home).glob(f"*{LOCK_SUFFIX}")):
            with lock_released(path) as dead:
                if not dead:
                    continue
                run_id = UUID(path.stem.removeprefix("."))
                found = None if may_still_be_locked(path) else settle_flow_run(client, run_id)
                settled += found or 0
                # None: deleted, or a run of another server, which may be the configured one again later.
                if found is not None or age_seconds(path) > KEEP_UNKNOWN_SECONDS:
                    path.unlink()
        settled += crash_never_started(client)
    with registry_turn(home):
        unfinished = delete_unfinished_models(home)
    return settled + end_dead_mlflow_runs(home) + unfinished


@contextlib.contextmanager
def lock_released(path: Path) -> Iterator[bool]:
    """Yield whether the process that locked the file has ended; holds the lock so that nobody else settles the run."""
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


def oldest_living_run(home: Home) -> float | None:
    """When the oldest flow run whose process lives was started, in seconds since 1970; None if none lives."""
    started = []
    for path in lock_folder(home).glob(f"*{LOCK_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError), lock_released(path) as dead:
            if not dead or may_still_be_locked(path):
                started.append(path.stat().st_mtime)
    return min(started, default=None)


def has_dead_runs(home: Home, query: "PrefectQuery") -> bool:
    """Whether settle_dead_runs would have something to do, asked by plain HTTP: importing Prefect takes seconds."""
    ended = []
    for path in lock_folder(home).glob(f"*{LOCK_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError), lock_released(path) as dead:
            if dead and not may_still_be_locked(path):
                ended.append(path.stem.removeprefix("."))
    found = query.post("flow_runs/filter", flow_runs={"id": {"any_": ended}}) if ended else []
    return any(run["state"]["type"] != "COMPLETED" for run in found)


def lock_restored_runs(home: Home) -> int:
    """Give each living flow run of a restored database a lock file that nobody holds, so that it is settled as dead."""
    database = home.prefect / "prefect.db"
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("select id from flow_run where state_type in ('PENDING', 'RUNNING', 'CANCELLING')")
        paths = [lock_file(home, UUID(identity)) for (identity,) in rows]
    lock_folder(home).mkdir(parents=True, exist_ok=True)
    for path in paths:
        path.touch()
    return len(paths)


def settle_flow_run(client: "SyncPrefectClient", run_id: UUID) -> int | None:
    """Give the flow run and its task runs final states if they have none.

    Returns how many were changed; None if the server does not know the run.
    """
    from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
    from prefect.exceptions import ObjectNotFound

    try:
        run = client.read_flow_run(run_id)
    except ObjectNotFound:
        return None
    if run.state is not None and run.state.is_completed():
        return 0
    tasks = client.read_task_runs(
        flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run_id]}}),
        task_run_filter=TaskRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}),
    )
    for task in tasks:
        client.set_task_run_state(task.id, final_state(task.state), force=True)
    if run.state is not None and run.state.is_final():
        return len(tasks)
    client.set_flow_run_state(run_id, final_state(run.state), force=True)
    logger.warning("flow run %s: its process was killed; marked as ended", run.name)
    return len(tasks) + 1


def final_state(before: "State[Any] | None") -> "State[Any]":
    """Cancelled for a run that was being cancelled when its process died, otherwise Crashed."""
    from prefect.states import Cancelled, Crashed

    return Cancelled() if before is not None and before.is_cancelling() else Crashed(message=WAS_KILLED)


def crash_never_started(client: "SyncPrefectClient") -> int:
    """Crash runs that a worker took and did not start. Returns how many."""
    from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
    from prefect.states import Crashed

    pending = client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": ["PENDING"]}}}),
        work_pool_filter=WorkPoolFilter.model_validate({"name": {"any_": [WORK_POOL]}}),
    )
    deadline = datetime.now(UTC) - STARTS_WITHIN
    overdue = [run for run in pending if run.state is not None and run.state.timestamp < deadline]
    for run in overdue:
        client.set_flow_run_state(run.id, Crashed(message=NEVER_STARTED), force=True)
        logger.warning("flow run %s: %s", run.name, NEVER_STARTED)
    return len(overdue)
