"""Restart runs that were interrupted by a stop, a kill or a power cut. Training resumes from its checkpoint."""

import itertools
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.runtime.recent_times import AHEAD_SECONDS
from rnnlm.storage.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

    from flows.operations.prefect_query import PrefectQuery

logger = logging.getLogger(__name__)
RESUMED = "resumed"  # The tag of a run that was started to continue an interrupted run.
STOPPED = "Stopped"  # The name of the state of runs that were stopped together with `rnnlm up`.
RESUMABLE_FLOWS = ("pipeline", "train")
# The age above which an interrupted run is not restarted, because the next scheduled run reads its text.
WITHIN = timedelta(days=1)
# The number of successive interrupted runs without stored output after which no further run is started. If memory is
# insufficient, for example, every attempt is killed.
ATTEMPTS = 3


def resume_interrupted(client: "SyncPrefectClient", home: Home) -> int:
    """Start a new run for the last run of each deployment if it was interrupted. Return the number of new runs.

    Only one new run follows an interrupted run, however often this function is called. After more than ATTEMPTS
    interrupted runs in a row without progress, no new run is started, and a message is added to the last run's state.
    """
    resumed = 0
    waiting = due_deployments(client)
    for deployment, runs in recent_runs(client).items():
        last = runs[0]
        if not was_interrupted(last) or deployment in waiting:
            continue
        without_progress = sum(1 for _ in itertools.takewhile(lambda run: is_without_progress(home, run), runs))
        if without_progress > ATTEMPTS:
            give_up(client, last, without_progress)
            continue
        assert last.deployment_id is not None
        client.create_flow_run_from_deployment(
            last.deployment_id,
            name=last.name,  # The new run keeps this name until it starts and sets its own name.
            parameters=last.parameters,
            tags=sorted({*last.tags, RESUMED}),
            idempotency_key=f"resume-{last.id}",
        )
        how = "stopped with rnnlm up" if is_stopped(last) else "interrupted"
        logger.info("flow run %s was %s; it is started again", last.name, how)
        resumed += 1
    return resumed


def crashed_runs(query: "PrefectQuery", since: str) -> list[dict[str, Any]]:
    """Return the runs that Prefect's worker reported as crashed after `since` (ISO 8601), and that may be restarted.

    A process that is killed before its flow begins has no lock file, so run_locks.py cannot find it.
    """
    found = query.flow_runs(["CRASHED"], "END_TIME_DESC", 100, end_time={"after_": since})
    return [run for run in found if run["deployment_id"] and query.flow_names.get(run["flow_id"]) in RESUMABLE_FLOWS]


def is_without_progress(home: Home, run: "FlowRun") -> bool:
    """Return True if the run was killed before it stored a checkpoint or the output of a stage."""
    if not was_interrupted(run) or is_stopped(run) or run.start_time is None:
        return False
    begin, end = run.start_time.timestamp(), (run.end_time or datetime.now(UTC)).timestamp()
    if end < begin:  # The clock was put back in between, so the times of files do not show progress.
        return False
    return not any(begin <= path.stat().st_mtime <= end for path in stored_outputs(home) if path.exists())


def stored_outputs(home: Home) -> Iterator[Path]:
    """Yield checkpoints, finished shards and outputs of stages, which the next attempt need not compute again."""
    yield from home.runs.glob("*/checkpoints/step-*")
    yield from home.shards.glob("*/*")
    for folder in (home.corpora, home.tokenizers, home.datasets, home.runs):
        yield from folder.glob("*/COMPLETE")


def give_up(client: "SyncPrefectClient", run: "FlowRun", attempts: int) -> None:
    """Explain in the message of the run's state why it is not restarted.

    The UI and `rnnlm status` show this message.
    """
    from prefect.states import Crashed

    message = (
        f"Interrupted {attempts} times in a row without any progress, so it is not started again: look for the cause "
        f"(rnnlm logs worker; is there enough memory?), then start it with rnnlm trigger."
    )
    if run.state is not None and run.state.message != message:
        client.set_flow_run_state(run.id, Crashed(message=message), force=True)
        logger.warning("flow run %s: %s", run.name, message)


def recent_runs(client: "SyncPrefectClient") -> "dict[str, list[FlowRun]]":
    """Return the runs of each deployment that started within WITHIN, by the deployment's id, the newest first."""
    from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    now = datetime.now(UTC)
    found = client.read_flow_runs(
        flow_filter=FlowFilter.model_validate({"name": {"any_": list(RESUMABLE_FLOWS)}}),
        flow_run_filter=FlowRunFilter.model_validate(
            {
                # Runs with a start in the future, from a time when the clock was ahead, are left out, because they
                # would hide later runs.
                "start_time": {"after_": now - WITHIN, "before_": now + timedelta(seconds=AHEAD_SECONDS)},
                "state": {"type": {"not_any_": ["SCHEDULED"]}},
                "parent_task_run_id": {"is_null_": True},
            }
        ),
        sort=FlowRunSort.START_TIME_DESC,
    )
    by_deployment: dict[str, list[FlowRun]] = {}
    for run in found:
        if run.deployment_id is not None:
            by_deployment.setdefault(str(run.deployment_id), []).append(run)
    return by_deployment


def due_deployments(client: "SyncPrefectClient") -> set[str]:
    """Return the ids of deployments with a run that is already due."""
    from prefect.client.schemas.filters import FlowRunFilter

    due = client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate(
            {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": {"before_": datetime.now(UTC)}}
        )
    )
    return {str(run.deployment_id) for run in due}


def was_interrupted(run: "FlowRun") -> bool:
    """Return True if the run's process was killed or stopped, and False if the run failed by itself."""
    return run.state is not None and (run.state.is_crashed() or is_stopped(run))


def is_stopped(run: "FlowRun") -> bool:
    return run.state is not None and run.state.is_cancelled() and run.state.name == STOPPED


def mark_stopped(query: "PrefectQuery", run_ids: list[str]) -> None:
    """Set runs that were stopped together with `rnnlm up` to Stopped, because Prefect would set them to Crashed.

    A run that was being cancelled becomes Cancelled, and a run that has ended keeps its state.
    """
    for run in query.post("flow_runs/filter", flow_runs={"id": {"any_": run_ids}}):
        state, resumable = run["state"]["type"], query.flow_names.get(run["flow_id"]) in RESUMABLE_FLOWS
        after = "; the next rnnlm up starts it again, from its last checkpoint" if resumable else ""
        final = {"type": "CANCELLED", "name": STOPPED, "message": f"Stopped with rnnlm up, in order{after}."}
        if state == "CANCELLING":
            final = {"type": "CANCELLED", "name": "Cancelled"}
        if state not in ("COMPLETED", "FAILED", "CANCELLED"):
            query.post(f"flow_runs/{run['id']}/set_state", state=final, force=True)
