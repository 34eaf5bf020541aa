"""Start runs again that a stop, a kill or a power cut has interrupted; training resumes from its checkpoint."""

import itertools
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.storage.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

    from flows.operations.prefect_query import PrefectQuery

logger = logging.getLogger(__name__)
RESUMED = "resumed"  # tag of a run that continues an interrupted one
STOPPED = "Stopped"  # name of the state of a run that an orderly end of `rnnlm up` has stopped
RESUMABLE_FLOWS = ("pipeline", "train")
WITHIN = timedelta(days=1)  # an older run is left to the next schedule
ATTEMPTS = 3  # interrupted runs in a row that may have stored nothing: a lack of memory kills each of them


def resume_interrupted(client: "SyncPrefectClient", home: Home) -> int:
    """Start a new run for the last run of each deployment if it was interrupted. Returns how many.

    Idempotent: an interrupted run is followed by one new run, however often this is called. After more than ATTEMPTS in
    a row without progress the last one's state says that it is not started again.
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
            name=last.name,  # until it starts and names itself
            parameters=last.parameters,
            tags=sorted({*last.tags, RESUMED}),
            idempotency_key=f"resume-{last.id}",
        )
        how = "stopped with rnnlm up" if is_stopped(last) else "interrupted"
        logger.info("flow run %s was %s; it is started again", last.name, how)
        resumed += 1
    return resumed


def crashed_runs(query: "PrefectQuery", since: str) -> list[dict[str, Any]]:
    """Return the runs that Prefect's worker has called crashed since then (ISO 8601), which may be started again.

    A process that is killed before its flow begins has no lock file, by which run_locks.py would find it.
    """
    found = query.flow_runs(["CRASHED"], "END_TIME_DESC", 100, end_time={"after_": since})
    return [run for run in found if run["deployment_id"] and query.flow_names.get(run["flow_id"]) in RESUMABLE_FLOWS]


def is_without_progress(home: Home, run: "FlowRun") -> bool:
    """Return True if the run was killed before it stored anything: a checkpoint, or the output of a stage."""
    if not was_interrupted(run) or is_stopped(run) or run.start_time is None:
        return False
    begin, end = run.start_time.timestamp(), (run.end_time or datetime.now(UTC)).timestamp()
    return not any(begin <= path.stat().st_mtime <= end for path in stored_outputs(home) if path.exists())


def stored_outputs(home: Home) -> Iterator[Path]:
    """Yield checkpoints, finished pieces, and outputs of stages: what the next attempt need not do again."""
    yield from home.runs.glob("*/checkpoints/step-*")
    yield from home.shards.glob("*/*")
    for folder in (home.corpora, home.tokenizers, home.datasets, home.runs):
        yield from folder.glob("*/COMPLETE")


def give_up(client: "SyncPrefectClient", run: "FlowRun", attempts: int) -> None:
    """Say in the run's state, which the UI, `rnnlm status` and messages show, that it is not started again."""
    from prefect.states import Crashed

    message = (
        f"Interrupted {attempts} times in a row without any progress, so it is not started again: look for the cause "
        f"(rnnlm logs worker; is there enough memory?), then start it with rnnlm trigger."
    )
    if run.state is not None and run.state.message != message:
        client.set_flow_run_state(run.id, Crashed(message=message), force=True)
        logger.warning("flow run %s: %s", run.name, message)


def recent_runs(client: "SyncPrefectClient") -> "dict[str, list[FlowRun]]":
    """Return each deployment's runs that have started within the time, newest first, by the deployment's id."""
    from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    since = datetime.now(UTC) - WITHIN
    found = client.read_flow_runs(
        flow_filter=FlowFilter.model_validate({"name": {"any_": list(RESUMABLE_FLOWS)}}),
        flow_run_filter=FlowRunFilter.model_validate(
            {
                "start_time": {"after_": since},
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
    """Return the ids of deployments with a run that is about to start anyway."""
    from prefect.client.schemas.filters import FlowRunFilter

    due = client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate(
            {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": {"before_": datetime.now(UTC)}}
        )
    )
    return {str(run.deployment_id) for run in due}


def was_interrupted(run: "FlowRun") -> bool:
    """Return True if the run's process ended from outside: Prefect calls it Crashed then, and Failed after an error."""
    return run.state is not None and (run.state.is_crashed() or is_stopped(run))


def is_stopped(run: "FlowRun") -> bool:
    return run.state is not None and run.state.is_cancelled() and run.state.name == STOPPED


def mark_stopped(query: "PrefectQuery", run_ids: list[str]) -> None:
    """Say of runs that were stopped together with `rnnlm up` that they were stopped: Prefect calls them Crashed.

    A run that was being cancelled is cancelled, and one that has ended keeps its outcome.
    """
    for run in query.post("flow_runs/filter", flow_runs={"id": {"any_": run_ids}}):
        state, resumable = run["state"]["type"], query.flow_names.get(run["flow_id"]) in RESUMABLE_FLOWS
        after = "; the next rnnlm up starts it again, from its last checkpoint" if resumable else ""
        final = {"type": "CANCELLED", "name": STOPPED, "message": f"Stopped with rnnlm up, in order{after}."}
        if state == "CANCELLING":
            final = {"type": "CANCELLED", "name": "Cancelled"}
        if state not in ("COMPLETED", "FAILED", "CANCELLED"):
            query.post(f"flow_runs/{run['id']}/set_state", state=final, force=True)
