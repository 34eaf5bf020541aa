"""A user's own schedules, which are deployments of the pipeline with their own corpus, settings and time."""

import re
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from flows.operations.deployments import Plan, apply, create_work_pool, full_name, read_plans
from flows.operations.prefect_query import FINISHED, PrefectQuery, is_night
from rnnlm.config import PipelineConfig
from rnnlm.corpora.corpus_names import corpus_name, name_of, with_digest
from rnnlm.errors import ConfigError, TrackingError
from rnnlm.registry.model_owner import other_owner
from rnnlm.registry.version_tags import registered_name
from rnnlm.storage.home import Home
from rnnlm.storage.records import Record
from rnnlm.tracking.run_names import OWN_SCHEDULE

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

# The largest number of characters in a schedule's name. Prefect has no limit, but tables of runs show the whole name.
LONGEST_NAME = 100
NAME = re.compile(rf"\w(?:[\w .-]{{0,{LONGEST_NAME - 2}}}[\w.-])?")


class ScheduleRow(Record):
    """A deployment that has a schedule."""

    name: str  # The full name of the deployment, FLOW/NAME.
    corpus: str  # The name of the corpus, or "" for a flow without a corpus.
    cron: str
    timezone: str
    active: bool
    own: bool  # True if `rnnlm schedule` created the schedule, False if it comes with rnnlm.
    next_run: datetime | None
    last_state: str  # The state of the last run, or "" if the deployment has never run.
    last_run: datetime | None
    last_by_hand: bool  # True if a user, not the schedule, started the last run.


def schedule(
    client: "SyncPrefectClient", name: str, config: PipelineConfig, cron: str, timezone: str
) -> tuple[str, bool]:
    """Create or change the deployment `pipeline/NAME`.

    Return the deployment's full name, and True if the example schedule of rnnlm was paused. It is paused when the user
    creates a schedule for the first time.
    """
    [nightly] = [plan for plan in read_plans() if plan["name"] == "nightly"]
    plan = own_plan(nightly, name, config, cron, timezone)
    is_first = not any(OWN_SCHEDULE in one.tags for one in client.read_deployments())
    create_work_pool(client)
    apply(client, plan, tags=(OWN_SCHEDULE,))
    return full_name(plan), is_first and pause_example(client, full_name(nightly))


def with_own_model(
    query: PrefectQuery, home: Home, config: PipelineConfig, schedule_name: str | None
) -> PipelineConfig:
    """Name the corpus after the schedule if the corpus's own name belongs to the registered model of another source.

    If the schedule has no name, raise ConfigError with two solutions.
    """
    name = corpus_name(config.corpus)
    owner = other_source(query, home, config, name, schedule_name)
    if owner is None:
        return config
    if schedule_name is None:
        model = registered_name(config.registry, name)
        raise ConfigError(
            f"{model} is the model of {owner}, not of {config.corpus.source};\n"
            "give the schedule and its model another name with --name NAME or,\n"
            f"if both sources have the same text, add --set registry.model_name={model}"
        )
    own = name_of(schedule_name)
    if other_source(query, home, config, own, schedule_name):
        own = with_digest(own, config.corpus.source)
    return config.model_copy(update={"corpus": config.corpus.model_copy(update={"name": own})})


def other_source(
    query: PrefectQuery, home: Home, config: PipelineConfig, name: str, schedule_name: str | None
) -> str | None:
    """Return another source whose registered model has the corpus name, or will get it from a schedule.

    Return None if there is no such source. `schedule_name` is the schedule that is created or changed.
    """
    if config.registry.model_name:
        return None
    # An unavailable registry is ignored here, because registration checks the name again.
    with suppress(TrackingError):
        if owner := other_owner(home, config, registered_name(config.registry, name)):
            return owner
    for deployment in query.deployments().values():
        if OWN_SCHEDULE in deployment["tags"] and deployment["name"] != schedule_name:
            scheduled = PipelineConfig.model_validate(deployment["parameters"]["config"])
            is_other = scheduled.corpus.source != config.corpus.source
            if is_other and not scheduled.registry.model_name and corpus_name(scheduled.corpus) == name:
                return scheduled.corpus.source
    return None


def own_plan(nightly: Plan, name: str, config: PipelineConfig, cron: str, timezone: str) -> Plan:
    """Return a copy of the `nightly` deployment's plan with another corpus, other settings and another time.

    Limits that the user did not set are taken from `nightly`.
    """
    if name in {plan["name"] for plan in read_plans()}:
        raise ConfigError(f"--name {name}: a deployment of this name comes with rnnlm; choose another name")
    if config.corpus.source != config.corpus.public_source:
        raise ConfigError(
            "--corpus: a schedule would store the address with its password in Prefect's database;\n"
            "download the text to a folder, and schedule that folder"
        )
    limits = nightly["parameters"]["config"]["limits"] | config.limits.model_dump(exclude_unset=True)
    return nightly | {
        "name": name,
        "description": f"The whole pipeline on {config.corpus.public_source}.",
        "parameters": {"config": config.model_dump(mode="json", exclude_defaults=True) | {"limits": limits}},
        "schedules": [{"slug": name, "cron": cron, "timezone": timezone, "active": True}],
    }


def pause_example(client: "SyncPrefectClient", name: str) -> bool:
    """Pause a deployment. Return False if it does not exist or is already paused."""
    from prefect.exceptions import ObjectNotFound

    try:
        example = client.read_deployment_by_name(name)
    except ObjectNotFound:
        return False
    if not example.paused:
        client.pause_deployment(example.id)
    return not example.paused


def list_schedules(query: PrefectQuery) -> list[ScheduleRow]:
    """Return all deployments that have a schedule, beginning with those that the user has created."""
    soonest = query.next_starts()
    rows = [
        schedule_row(name, one, soonest.get(name), query.last_runs(one["id"], ["RUNNING", *FINISHED]))
        for name, one in query.deployments().items()
        if one["schedules"]
    ]
    return sorted(rows, key=lambda row: (not row.own, row.name))


def schedule_row(
    name: str, deployment: dict[str, Any], next_run: datetime | None, runs: list[dict[str, Any]]
) -> ScheduleRow:
    """Return the table row of a schedule. `runs` are its runs, the newest first."""
    schedules = deployment["schedules"]
    last = runs[0] if runs else None
    timing = next((one for one in schedules if one["active"]), schedules[0])
    return ScheduleRow(
        name=name,
        corpus=deployment["parameters"].get("config", {}).get("corpus", {}).get("source", ""),
        # Schedules of other kinds can be created in the Prefect UI.
        cron=timing["schedule"].get("cron") or "not a cron line",
        timezone=timing["schedule"].get("timezone") or "UTC",
        active=timing["active"] and not deployment["paused"],
        own=OWN_SCHEDULE in deployment["tags"],
        next_run=next_run,
        last_state=last["state"]["name"] if last else "",
        last_run=last["start_time"] if last else None,
        last_by_hand=last is not None and not is_night(last),
    )


def unschedule(client: "SyncPrefectClient", query: PrefectQuery, name: str) -> str:
    """Delete a user's own deployment, or pause one that comes with rnnlm. Return a description of the change."""
    full, deployment = find_deployment(query, name)
    if OWN_SCHEDULE in deployment["tags"]:
        client.delete_deployment(UUID(deployment["id"]))
        return f"deleted {full}; its runs, corpora and models stay"
    client.pause_deployment(UUID(deployment["id"]))
    return f"paused {full}, because it comes with rnnlm; to resume it, switch it on in the Prefect UI"


def trigger(query: PrefectQuery, name: str) -> tuple[str, str]:
    """Start a run now, and return the deployment's full name and the id of the flow run."""
    full, deployment = find_deployment(query, name)
    return full, str(query.post(f"deployments/{deployment['id']}/create_flow_run")["id"])


def find_deployment(query: PrefectQuery, name: str) -> tuple[str, dict[str, Any]]:
    """Return the full name FLOW/NAME and the deployment. `name` may be the full name or only NAME.

    Raise ConfigError with the existing names if there is no such deployment.
    """
    found = query.deployments()
    chosen = {full: one for full, one in found.items() if name in (full, one["name"])}
    if len(chosen) != 1:
        problem = "more than one deployment has this name" if chosen else "no such deployment"
        known = ", ".join(sorted(chosen or found)) or "none; see rnnlm deploy"
        raise ConfigError(f"{name}: {problem}; existing deployments: {known}")
    [chosen_one] = chosen.items()
    return chosen_one


def check_name(name: str) -> None:
    """Raise ConfigError for a name that Prefect or `rnnlm trigger` does not accept."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r}: expected up to {LONGEST_NAME} letters, digits, spaces, dots, underscores and dashes, "
            "a letter or digit first"
        )
