"""Start runs again that a stop, a kill or a power cut has interrupted; training resumes from its checkpoint."""

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

logger = logging.getLogger(__name__)
RESUMED = "resumed"  # tag of a run that goes on with an interrupted one
RESUMABLE_FLOWS = ("pipeline", "train")
WITHIN = timedelta(days=1)  # an older run is left to the next schedule
ATTEMPTS = 3  # runs of one deployment that may be interrupted within that time: out of memory kills each of them


def resume_interrupted(client: "SyncPrefectClient") -> int:
    """Start a new run for the last run of each deployment if it was interrupted. Returns how many.

    Idempotent: an interrupted run is followed by one new run, however often this is called.
    """
    resumed = 0
    waiting = due_deployments(client)
    for deployment, runs in recent_runs(client).items():
        last, interruptions = runs[0], sum(map(was_interrupted, runs))
        if not was_interrupted(last) or interruptions > ATTEMPTS or deployment in waiting:
            continue
        assert last.deployment_id is not None
        client.create_flow_run_from_deployment(
            last.deployment_id,
            parameters=last.parameters,
            tags=sorted({*last.tags, RESUMED}),
            idempotency_key=f"resume-{last.id}",
        )
        logger.info("flow run %s was interrupted; it is started again", last.name)
        resumed += 1
    return resumed


def recent_runs(client: "SyncPrefectClient") -> "dict[str, list[FlowRun]]":
    """Deployment's id → its runs that have started within the time, newest first."""
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
    """Ids of deployments with a run that is about to start anyway."""
    from prefect.client.schemas.filters import FlowRunFilter

    due = client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate(
            {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": {"before_": datetime.now(UTC)}}
        )
    )
    return {str(run.deployment_id) for run in due}


def was_interrupted(run: "FlowRun") -> bool:
    """Prefect calls a run Crashed if its process ended from outside, and Failed if its code raised an error."""
    return run.state is not None and run.state.is_crashed()
