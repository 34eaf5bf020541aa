"""The status of a home for `rnnlm status`: servers, runs, champions, disk use and errors."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from flows.operations.home_servers import RunningHome, home_password, read_running
from flows.operations.prefect_query import FINISHED, UNFINISHED, PrefectQuery, health_problem
from flows.service.home_processes import find_home_processes
from rnnlm.errors import TrackingError
from rnnlm.home import Home, size_of
from rnnlm.registry import data_gates
from rnnlm.registry.champion_history import read_history
from rnnlm.registry.data_gates import CHAMPION_STAYS
from rnnlm.registry.mlflow_database import champions_in_file
from rnnlm.registry.model_lookup import list_models
from rnnlm.registry.night_events import NIGHT_ENDED
from rnnlm.registry.registry_version import RegistryVersion, read_versions
from rnnlm.storage.records import Record
from rnnlm.tracking.mlflow_store import is_embedded, reaching_mlflow

RUNS_SHOWN = 5
ERRORS_WITHIN = timedelta(days=7)
UPKEEP = ["settle"]  # flows that run often and say little
NIGHT = "pipeline"


class RunStatus(Record):
    name: str
    when: str  # local time of its start: since when it runs, when it ran, or when it will
    state: str
    note: str = ""  # how far it is, or why it failed


class NightStatus(Record):
    """The last night of a schedule of the pipeline, and the next."""

    schedule: str
    when: str  # local time; "" if it never ran
    state: str
    outcome: str  # scores and decision with the reason, or the whole error; "" if Prefect has deleted it (7 days)
    next: str  # local time; "" if the schedule is paused


class ChampionStatus(Record):
    model: str
    version: int
    since: str
    bits_per_byte: str


class HomeStatus(Record):
    home: str
    servers: tuple[str, ...] = ()  # one line each; empty: `rnnlm up` does not run
    nights: tuple[NightStatus, ...] = ()
    running: tuple[RunStatus, ...] = ()  # also those that wait for the worker
    next: tuple[RunStatus, ...] = ()
    last: tuple[RunStatus, ...] = ()
    gates: str = ""  # what the checks before training have found in the last night; "" if nothing
    errors: tuple[RunStatus, ...] = ()
    champions: tuple[ChampionStatus, ...] = ()
    disk_bytes: dict[str, int]


def read_status(home: Home) -> HomeStatus:
    running = read_running(home)
    # The server at PREFECT_API_URL may be a team's, without `rnnlm up` on this machine.
    api = running.prefect_api if running else os.environ.get("PREFECT_API_URL")
    servers = server_lines(home, running)
    status = HomeStatus(home=str(home.root), servers=servers, disk_bytes=disk_bytes(home), champions=champions(home))
    if api is None or health_problem(api):
        return status
    try:
        return status.model_copy(update=runs_of(PrefectQuery(api, home_password(home) if running else None)))
    except httpx.HTTPError as error:  # it has just ended, or is very busy
        return status.model_copy(update={"servers": (*servers, f"Prefect does not answer: {error}")})


def runs_of(query: PrefectQuery) -> dict[str, Any]:
    """The fields of HomeStatus that Prefect knows."""
    last, coming = last_runs(query, FINISHED), next_runs(query)
    since = {"after_": (datetime.now(UTC) - ERRORS_WITHIN).isoformat()}
    return {
        "nights": tuple(nights(query, coming)),
        "running": tuple(run_status(run, last_log_line(query, run)) for run in unfinished_runs(query)),
        "next": tuple(RunStatus(name=name, when=when, state="") for name, when in [*coming.items()][:RUNS_SHOWN]),
        "last": tuple(map(run_status, last)),
        "gates": next((gate_note(query, run) for run in last if query.flow_names.get(run["flow_id"]) == NIGHT), ""),
        "errors": tuple(
            run_status(run, message_of(run)) for run in last_runs(query, ["FAILED", "CRASHED"], start_time=since)
        ),
    }


def server_lines(home: Home, running: RunningHome | None) -> tuple[str, ...]:
    if running is None:
        left = len(find_home_processes(home).services)
        return (f"not up, but {left} processes of a killed rnnlm up are left: rnnlm down, or rnnlm up",) if left else ()
    since = local_time(running.started)
    answers = {
        running.prefect_url: health_problem(running.prefect_api),
        running.mlflow_url: health_problem(running.mlflow_url),
    }
    state = "" if running.ready else ", starting"
    return (
        f"up since {since}{state} (process {running.pid})",
        *(f"{url}{'  does not answer: ' + problem if problem else ''}" for url, problem in answers.items()),
    )


def nights(query: PrefectQuery, coming: dict[str, str]) -> Iterator[NightStatus]:
    """One for each schedule of the pipeline that is active or has run. coming: from next_runs()."""
    for name, deployment in query.deployments().items():
        if not name.startswith(f"{NIGHT}/") or not deployment["schedules"]:
            continue
        last = query.last_run(deployment["id"], FINISHED)
        if last or name in coming:
            yield NightStatus(
                schedule=deployment["name"],
                when=run_status(last).when if last else "",
                state=last["state"]["name"] if last else "",
                outcome=outcome_of(query, last) if last else "",
                next=coming.get(name, ""),
            )


def outcome_of(query: PrefectQuery, run: dict[str, Any]) -> str:
    """The night's score and decision, from its event (rnnlm/registry/night_events.py); or why it has failed."""
    if run["state"]["type"] != "COMPLETED":
        return message_of(run)
    told = {"event": {"name": [NIGHT_ENDED]}, "related": {"id": [f"prefect.flow-run.{run['id']}"]}}
    events = query.post("events/filter", filter=told, limit=1)["events"]
    return str(events[0]["payload"]["message"]) if events else ""


def next_runs(query: PrefectQuery) -> dict[str, str]:
    """`flow/deployment` → local time of its next run, the soonest first, without upkeep."""
    return {
        name: local_time(moment) for name, moment in query.next_starts().items() if name.partition("/")[0] not in UPKEEP
    }


def unfinished_runs(query: PrefectQuery) -> list[dict[str, Any]]:
    """Runs that have begun, and those that are due and wait for the worker, as after `rnnlm trigger`."""
    due = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
    waiting = last_runs(query, ["SCHEDULED"], order="EXPECTED_START_TIME_ASC", **due)
    return last_runs(query, UNFINISHED) + waiting


def last_runs(
    query: PrefectQuery, states: list[str], order: str = "START_TIME_DESC", **more: Any
) -> list[dict[str, Any]]:
    """The last runs in one of these states, without upkeep."""
    found = query.flow_runs(states, order, 100, **more)
    return [run for run in found if query.flow_names.get(run["flow_id"]) not in UPKEEP][:RUNS_SHOWN]


def run_status(run: dict[str, Any], note: str = "") -> RunStatus:
    when = local_time(run["start_time"] or run["expected_start_time"])  # it may have ended before it started
    return RunStatus(name=run["name"], when=when, state=run["state"]["name"], note=note)


def message_of(run: dict[str, Any]) -> str:
    return (run["state"].get("message") or "").strip()


def last_log_line(query: PrefectQuery, run: dict[str, Any]) -> str:
    """The last log line of the library, which says how far the run is."""
    logs = query.logs(run["id"], "rnnlm.")
    return logs[0]["message"].strip().partition("\n")[0] if logs else ""


def gate_note(query: PrefectQuery, run: dict[str, Any]) -> str:
    """`toy · smoke · 23 Nov 02:00 stopped: …`, or its warnings."""
    _, stopped, reason = message_of(run).partition("\n")[0].partition(f"{CHAMPION_STAYS}: ")
    if stopped:
        return f"{run['name']} stopped: {reason}"
    warnings = query.logs(run["id"], data_gates.logger.name, level={"ge_": logging.WARNING})
    found = (log["message"].removeprefix("gates: ") for log in reversed(warnings))
    return f"{run['name']} warned: {' · '.join(found)}" if warnings else ""


def champions(home: Home) -> tuple[ChampionStatus, ...]:
    """The champions of the home's own store; importing MLflow to ask another takes seconds."""
    try:
        found = champions_in_file(home.mlflow_database) if is_embedded(home) else champions_of_server(home)
    except (TrackingError, sqlite3.Error):  # a server that does not answer; no store yet, or one with other tables
        return ()
    return tuple(champion_status(name, number, versions) for name, (number, versions) in found.items())


def champions_of_server(home: Home) -> dict[str, tuple[int, list[RegistryVersion]]]:
    """Like champions_in_file(), but read from the server."""
    found = [version for version in list_models(home) if "champion" in version.aliases]
    with reaching_mlflow(home) as client:
        return {one.name: (one.version, read_versions(client, one.name)) for one in found}


def champion_status(model: str, number: int, versions: list[RegistryVersion]) -> ChampionStatus:
    """versions: all of the model."""
    history = read_history(versions)
    facts = next((version.facts for version in versions if version.number == number), {})
    figure = facts.get("bits_per_byte")
    return ChampionStatus(
        model=model,
        version=number,
        since=local_time(history[-1].when) if history else "",
        bits_per_byte="" if figure is None else f"{float(figure):.3f}",
    )


def disk_bytes(home: Home) -> dict[str, int]:
    """Folder or file of the home → its size in bytes, the largest first; hidden ones are left out."""
    if not home.root.exists():
        return {}
    sizes = {path.name: size_of(path) for path in home.root.iterdir() if not path.name.startswith(".")}
    shown = {name: size for name, size in sorted(sizes.items(), key=lambda item: -item[1]) if size >= 50_000}
    return {**shown, "all": sum(sizes.values())}


def local_time(moment: str | datetime) -> str:
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return f"{moment.astimezone():%m-%d %H:%M}"
