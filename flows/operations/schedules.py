"""A user's own schedules: deployments of the pipeline, each with its corpus, settings and time."""

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from flows.operations.deployments import apply, full_name, read_plans
from flows.operations.prefect_names import OWN_SCHEDULE
from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.storage.records import Record

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

LONGEST_NAME = 100  # characters; Prefect has no limit, but a table of runs shows the names of all
NAME = re.compile(rf"\w(?:[\w .-]{{0,{LONGEST_NAME - 2}}}[\w.-])?")


class ScheduleRow(Record):
    """A deployment with a schedule."""

    name: str  # flow/deployment
    corpus: str  # "" for flows without one
    cron: str
    timezone: str
    active: bool
    own: bool  # made by `rnnlm schedule`; the others come with rnnlm
    next_run: datetime | None
    last_state: str  # "" if it never ran
    last_run: datetime | None


def schedule(
    client: "SyncPrefectClient", name: str, config: PipelineConfig, cron: str, timezone: str
) -> tuple[str, bool]:
    """Create or change the deployment `pipeline/NAME`.

    Returns its full name, and whether the schedule that comes with rnnlm was paused: it is only an example, and the
    first schedule of one's own takes its place.
    """
    [nightly] = [plan for plan in read_plans() if plan["name"] == "nightly"]
    if name in {plan["name"] for plan in read_plans()}:
        raise ConfigError(f"--name {name}: this deployment comes with rnnlm; choose another name")
    if config.corpus.source != config.corpus.public_source:
        raise ConfigError(
            "--corpus: a schedule would store the password of the address in Prefect's database;\n"
            "download the text to a folder and schedule that"
        )
    nightly_limits = nightly["parameters"]["config"]["limits"]
    plan = nightly | {
        "name": name,
        "description": f"The whole pipeline on {config.corpus.public_source}.",
        "parameters": {"config": {"limits": nightly_limits} | config.model_dump(mode="json", exclude_defaults=True)},
        "schedules": [{"slug": name, "cron": cron, "timezone": timezone, "active": True}],
    }
    is_first = not any(OWN_SCHEDULE in one.tags for one in client.read_deployments())
    apply(client, plan, tags=(OWN_SCHEDULE,))
    return full_name(plan), is_first and pause_example(client, full_name(nightly))


def pause_example(client: "SyncPrefectClient", name: str) -> bool:
    """Pause the deployment. False if it does not exist, or is paused."""
    from prefect.exceptions import ObjectNotFound

    try:
        example = client.read_deployment_by_name(name)
    except ObjectNotFound:
        return False
    if not example.paused:
        client.pause_deployment(example.id)
    return not example.paused


def list_schedules(client: "SyncPrefectClient") -> list[ScheduleRow]:
    """All deployments with a schedule, the user's own first."""
    flows, soonest = flow_names(client), next_runs(client)
    rows = [
        schedule_row(one, flows[one.flow_id], soonest.get(one.id), last_run(client, one))
        for one in client.read_deployments()
        if one.schedules
    ]
    return sorted(rows, key=lambda row: (not row.own, row.name))


def schedule_row(
    deployment: "DeploymentResponse", flow: str, next_run: datetime | None, last: "FlowRun | None"
) -> ScheduleRow:
    timing = deployment.schedules[0]
    config = deployment.parameters.get("config", {})
    return ScheduleRow(
        name=f"{flow}/{deployment.name}",
        corpus=config.get("corpus", {}).get("source", ""),
        cron=str(getattr(timing.schedule, "cron", "")),
        timezone=str(getattr(timing.schedule, "timezone", "") or "UTC"),
        active=timing.active and not deployment.paused,
        own=OWN_SCHEDULE in deployment.tags,
        next_run=next_run,
        last_state=str(last.state_name) if last else "",
        last_run=last.start_time if last else None,
    )


def flow_names(client: "SyncPrefectClient") -> dict[UUID, str]:
    """Flow's id → its name."""
    return {flow.id: flow.name for flow in client.read_flows()}


def next_runs(client: "SyncPrefectClient") -> dict[UUID | None, datetime | None]:
    """Deployment's id → when its next run starts. Prefect plans a few runs of each, and answers with the first 200."""
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    planned = client.read_flow_runs(
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": ["SCHEDULED"]}}}),
        sort=FlowRunSort.EXPECTED_START_TIME_ASC,
    )
    return {run.deployment_id: run.expected_start_time for run in reversed(planned)}


def last_run(client: "SyncPrefectClient", deployment: "DeploymentResponse") -> "FlowRun | None":
    from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    begun = ["RUNNING", "COMPLETED", "FAILED", "CRASHED", "CANCELLED"]
    found = client.read_flow_runs(
        deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [deployment.id]}}),
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": begun}}}),
        sort=FlowRunSort.START_TIME_DESC,
        limit=1,
    )
    return found[0] if found else None


def unschedule(client: "SyncPrefectClient", name: str) -> str:
    """Delete the user's own deployment; pause one that comes with rnnlm. Returns what was done."""
    deployment, full = find_deployment(client, name)
    if OWN_SCHEDULE in deployment.tags:
        client.delete_deployment(deployment.id)
        return f"deleted {full}; its runs, corpora and models stay"
    client.pause_deployment(deployment.id)
    return f"paused {full}: it comes with rnnlm; resume it in the Prefect UI or with prefect deployment resume"


def trigger(client: "SyncPrefectClient", name: str) -> tuple[str, str]:
    """Start a run now. Returns the deployment's full name and the flow run's id."""
    deployment, full = find_deployment(client, name)
    return full, str(client.create_flow_run_from_deployment(deployment.id).id)


def find_deployment(client: "SyncPrefectClient", name: str) -> "tuple[DeploymentResponse, str]":
    """By name or flow/name. ConfigError lists those that exist."""
    flows = flow_names(client)
    found = {f"{flows[one.flow_id]}/{one.name}": one for one in client.read_deployments()}
    chosen = {full: one for full, one in found.items() if name in (full, one.name)}
    if len(chosen) != 1:
        problem = "more than one deployment has this name" if chosen else "no such deployment"
        known = ", ".join(sorted(chosen or found)) or "none; see rnnlm deploy"
        raise ConfigError(f"{name}: {problem}; there are: {known}")
    [(full, deployment)] = chosen.items()
    return deployment, full


def absolute_source(source: str) -> str:
    """A path in full, since a worker runs in another folder; names, URLs and hf: sources unchanged."""
    from rnnlm.corpora.catalogue import CATALOGUE
    from rnnlm.corpora.hub import HUB_PREFIX
    from rnnlm.corpora.sources import is_url

    if source in CATALOGUE or source.startswith(HUB_PREFIX) or is_url(source):
        return source
    return str(Path(source).expanduser().resolve())


def check_name(name: str) -> None:
    """ConfigError for a name that Prefect refuses, or that `rnnlm trigger` could not take."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r}: expected up to {LONGEST_NAME} letters, digits, spaces, dots, underscores and dashes, "
            "a letter or digit first"
        )


def check_timing(cron: str, timezone: str) -> None:
    """ConfigError for what is no cron line or no time zone."""
    from prefect.client.schemas.schedules import CronSchedule
    from pydantic import ValidationError

    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValidationError as error:
        [problem, *_] = error.errors()
        option, value = ("--timezone", timezone) if problem["loc"][:1] == ("timezone",) else ("--cron", cron)
        example = "Europe/Berlin" if option == "--timezone" else "'0 2 * * *' for every day at 02:00"
        raise ConfigError(f"{option} {value!r}: expected {example}") from None
