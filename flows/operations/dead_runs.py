"""Set a final state for runs whose process was killed. Their locks show that the process has ended (see run_locks.py).

Prefect itself would leave such a run in the state `Running`, in which it occupies a concurrency limit.
"""

import logging
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

from flows.operations.prefect_query import WORK_POOL
from flows.operations.run_locks import STARTS_WITHIN, run_id_of, run_locks
from rnnlm.registry.stored_versions import delete_unfinished_models
from rnnlm.runtime.recent_times import is_recent
from rnnlm.storage.home import Home
from rnnlm.tracking.dead_mlflow_runs import end_dead_mlflow_runs

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State


logger = logging.getLogger(__name__)
NEVER_STARTED = f"Its process did not start within {STARTS_WITHIN.seconds // 60} minutes; the worker was stopped."
WAS_KILLED = "Its process was killed: SIGKILL, out of memory or a power cut."
# The number of seconds for which lock files are kept if the current server does not know their runs.
KEEP_UNKNOWN_SECONDS = 30 * 24 * 3600


def settle_dead_runs(home: Home) -> int:
    """Clean up after killed processes, and return the number of cleaned items.

    Flow and task runs get a final state, MLflow runs are ended, and unfinished models are deleted.
    """
    from prefect.client.orchestration import get_client

    from tasks.operations.registry_turn import registry_turn

    settled = 0
    with get_client(sync_client=True) as client:
        for path, made, has_ended in run_locks(home):
            found = settle_flow_run(client, run_id_of(path)) if has_ended else None
            settled += found or 0
            # `found` is None if the run was deleted, or if it is on another server, which may be configured again
            # later.
            if has_ended and (found is not None or time.time() - made > KEEP_UNKNOWN_SECONDS):
                path.unlink()
        settled += crash_never_started(client)
    with registry_turn(home):
        unfinished = delete_unfinished_models(home)
    return settled + end_dead_mlflow_runs(home) + unfinished


def settle_flow_run(client: "SyncPrefectClient", run_id: UUID) -> int | None:
    """Give a flow run and its task runs final states if they have none.

    Return the number of changed runs, or None if the server does not have the run.
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
    final = final_state(run.state)
    for task in tasks:
        client.set_task_run_state(task.id, final, force=True)
    if run.state is not None and run.state.is_final():
        return len(tasks)
    client.set_flow_run_state(run_id, final, force=True)
    logger.warning("flow run %s: %s", run.name, "it was cancelled" if final.is_cancelled() else WAS_KILLED)
    return len(tasks) + 1


def final_state(before: "State[Any] | None") -> "State[Any]":
    """Return the final state of a dead run and of its tasks.

    The state is Cancelled if the run was cancelled, or was being cancelled when its process died. Otherwise it is
    Crashed.
    """
    from prefect.states import Cancelled, Crashed

    cancelled = before is not None and (before.is_cancelling() or before.is_cancelled())
    return Cancelled() if cancelled else Crashed(message=WAS_KILLED)


def crash_never_started(client: "SyncPrefectClient") -> int:
    """Set runs that a worker has taken, but not started in time, to Crashed. Return their number."""
    from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
    from prefect.states import Crashed

    pending = client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": ["PENDING"]}}}),
        work_pool_filter=WorkPoolFilter.model_validate({"name": {"any_": [WORK_POOL]}}),
    )
    patience = STARTS_WITHIN.total_seconds()
    overdue = [
        run for run in pending if run.state and not is_recent(run.state.timestamp.timestamp(), patience, patience)
    ]
    for run in overdue:
        client.set_flow_run_state(run.id, Crashed(message=NEVER_STARTED), force=True)
        logger.warning("flow run %s: %s", run.name, NEVER_STARTED)
    return len(overdue)
