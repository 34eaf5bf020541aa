"""The status of an rnnlm home for `rnnlm status`: servers, runs, champions, disk use and errors."""

import logging
import os
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from flows.operations.home_servers import RunningHome, home_password, read_running
from flows.operations.interrupted_runs import RESUMED, STOPPED
from flows.operations.prefect_query import FINISHED, UNFINISHED, PrefectQuery, health_problem, is_night
from flows.operations.schedule_times import local_time
from flows.service.home_processes import find_home_processes
from rnnlm.errors import TrackingError
from rnnlm.registry import data_gates
from rnnlm.registry.champion_history import champion_before, read_history
from rnnlm.registry.data_gates import CHAMPION_STAYS
from rnnlm.registry.mlflow_database import champions_in_file, local_model_names
from rnnlm.registry.model_lookup import list_models, registered_versions
from rnnlm.registry.night_events import NIGHT_ENDED
from rnnlm.registry.promotion import kept_before, kept_since
from rnnlm.registry.registry_version import RegistryVersion, read_versions
from rnnlm.storage.home import Home, size_of
from rnnlm.storage.records import Record
from rnnlm.tracking.mlflow_store import is_embedded, reaching_mlflow

RUNS_SHOWN = 5
ERRORS_WITHIN = timedelta(days=7)
UPKEEP = ["settle"]  # Flows that the status does not show, because they run often.
NIGHT = "pipeline"
# The event for which a run waits in each state. In any other state, it waits for the worker.
WAITS_FOR = {"AwaitingConcurrencySlot": "the run before it", "AwaitingRetry": "its retry"}


class RunStatus(Record):
    name: str
    when: str  # The local time of the start, which may be in the past or in the future.
    state: str
    note: str = ""  # The run's progress, the reason why it waits, or its error.
    by_hand: bool = False  # True if a user, not a schedule, has started the run.


class NightStatus(Record):
    """The last and the next nightly run of a pipeline schedule, or its last run by hand."""

    schedule: str
    when: str  # The local time of the last run, or "" if the schedule has never run.
    state: str
    # The scores and the decision with its reason, or the whole error. It is "" if Prefect has deleted the event after 7
    # days.
    outcome: str
    next: str  # The local time of the next nightly run, or "" if the schedule is paused.


class ChampionStatus(Record):
    model: str
    version: int
    since: str
    # The nightly runs whose candidates did not replace the champion, as a text such as `3 nights since 11-25 02:04`.
    kept: str
    bits_per_byte: str


class HomeStatus(Record):
    home: str
    servers: tuple[str, ...] = ()  # One line per server, or no line if `rnnlm up` is not running.
    nights: tuple[NightStatus, ...] = ()
    # The runs that a user has started after the last nightly run of a schedule.
    by_hand: tuple[NightStatus, ...] = ()
    running: tuple[RunStatus, ...] = ()
    waiting: tuple[RunStatus, ...] = ()  # Runs that are due but have not started.
    next: tuple[RunStatus, ...] = ()
    last: tuple[RunStatus, ...] = ()
    gates: str = ""  # The findings of the data checks before training in the last nightly run, or "" if there are none.
    errors: tuple[RunStatus, ...] = ()
    champions: tuple[ChampionStatus, ...] = ()
    without_champion: tuple[str, ...] = ()  # One line for each model without a champion, with a command that sets one.
    disk_bytes: dict[str, int]
    free_bytes: int | None = None  # The free bytes on the rnnlm home's disk, or None if there is no home yet.


def read_status(home: Home) -> HomeStatus:
    running = read_running(home)
    # PREFECT_API_URL may name a server on another machine, which runs even without `rnnlm up`.
    api = running.prefect_api if running else os.environ.get("PREFECT_API_URL")
    servers = server_lines(home, running)
    found = champions(home)
    status = HomeStatus(
        home=str(home.root),
        servers=servers,
        disk_bytes=disk_bytes(home),
        free_bytes=shutil.disk_usage(home.root).free if home.root.exists() else None,
        champions=found,
        without_champion=without_champion(home, {one.model for one in found}),
    )
    if api is None or health_problem(api):
        return status
    try:
        return status.model_copy(update=runs_of(PrefectQuery(api, home_password(home) if running else None)))
    except httpx.HTTPError as error:  # The server has just ended or is too busy to respond.
        return status.model_copy(update={"servers": (*servers, f"Prefect does not answer: {error}")})


def runs_of(query: PrefectQuery) -> dict[str, Any]:
    """Return the fields of HomeStatus that are queried from Prefect."""
    deployments, coming = query.deployments(), next_runs(query)
    names = {one["id"]: one["name"] for one in deployments.values()}
    last = last_runs(query, FINISHED)
    running, waiting = unfinished_runs(query)
    since = {"after_": (datetime.now(UTC) - ERRORS_WITHIN).isoformat()}
    failed = last_runs(query, ["FAILED", "CRASHED"], start_time=since)
    nights, by_hand = schedule_runs(query, deployments, coming)
    return {
        "nights": tuple(nights),
        "by_hand": tuple(by_hand),
        "running": tuple(run_status(run, names, progress(query, run)) for run in running),
        "waiting": tuple(run_status(run, names, waits_for(query, run)) for run in waiting),
        "next": tuple(RunStatus(name=name, when=when, state="") for name, when in [*coming.items()][:RUNS_SHOWN]),
        "last": tuple(run_status(run, names) for run in last),
        "gates": next((gate_note(query, run) for run in last if query.flow_names.get(run["flow_id"]) == NIGHT), ""),
        "errors": tuple(run_status(run, names, message_of(run)) for run in failed),
    }


def server_lines(home: Home, running: RunningHome | None) -> tuple[str, ...]:
    if running is None:
        left = len(find_home_processes(home).services)
        return (
            (f"not up, but {left} processes of a killed rnnlm up are left; rnnlm down or rnnlm up ends them",)
            if left
            else ()
        )
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


def schedule_runs(
    query: PrefectQuery, deployments: dict[str, dict[str, Any]], coming: dict[str, str]
) -> tuple[list[NightStatus], list[NightStatus]]:
    """Return the last nightly run of each pipeline schedule, and the runs that a user has started after it.

    Schedules that are inactive and have never run are left out. `coming` is the result of next_runs().
    """
    nights, by_hand = [], []
    for name, deployment in deployments.items():
        if not name.startswith(f"{NIGHT}/") or not deployment["schedules"]:
            continue
        runs = query.last_runs(deployment["id"], FINISHED)
        last = next(filter(is_night, runs), None)
        if last or name in coming:
            nights.append(night_status(query, deployment["name"], last, coming.get(name, "")))
        if runs and not is_night(runs[0]):
            by_hand.append(night_status(query, deployment["name"], runs[0]))
    return nights, by_hand


def night_status(query: PrefectQuery, schedule: str, run: dict[str, Any] | None, following: str = "") -> NightStatus:
    if run is None:
        return NightStatus(schedule=schedule, when="", state="", outcome="", next=following)
    return NightStatus(
        schedule=schedule,
        when=local_time(began_or_due(run)),
        state=run["state"]["name"],
        outcome=outcome_of(query, run),
        next=following,
    )


def outcome_of(query: PrefectQuery, run: dict[str, Any]) -> str:
    """Return the scores and the decision of a nightly run from its event (night_events.py), or the run's error."""
    if run["state"]["type"] != "COMPLETED":
        return message_of(run)
    told = {"event": {"name": [NIGHT_ENDED]}, "related": {"id": [f"prefect.flow-run.{run['id']}"]}}
    events = query.post("events/filter", filter=told, limit=1)["events"]
    return str(events[0]["payload"]["message"]) if events else ""


def next_runs(query: PrefectQuery) -> dict[str, str]:
    """Return the local time of each deployment's next run by FLOW/NAME, the soonest first, without flows in UPKEEP."""
    return {
        name: local_time(moment) for name, moment in query.next_starts().items() if name.partition("/")[0] not in UPKEEP
    }


def unfinished_runs(query: PrefectQuery) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the runs that have started, and the runs that are due but still waiting, as after `rnnlm trigger`."""
    now = datetime.now(UTC)
    planned = last_runs(query, ["SCHEDULED"], order="EXPECTED_START_TIME_ASC", shown=100)
    waiting = [run for run in planned if run["state"]["name"] in WAITS_FOR or is_due(run, now)]
    taken = last_runs(query, UNFINISHED)
    begun, starting = [run for run in taken if run["start_time"]], [run for run in taken if not run["start_time"]]
    return begun, [*starting, *waiting][:RUNS_SHOWN]


def is_due(run: dict[str, Any], now: datetime) -> bool:
    return datetime.fromisoformat(run["expected_start_time"]) <= now


def last_runs(
    query: PrefectQuery, states: list[str], order: str = "START_TIME_DESC", shown: int = RUNS_SHOWN, **more: Any
) -> list[dict[str, Any]]:
    """Return the last runs in one of the given states, without flows in UPKEEP."""
    found = query.flow_runs(states, order, 100, **more)
    return [run for run in found if query.flow_names.get(run["flow_id"]) not in UPKEEP][:shown]


def run_status(run: dict[str, Any], names: dict[str, str], note: str = "") -> RunStatus:
    """Return the status of a run.

    A run that has not started only has a random name, so the name of its deployment in `names` is shown.
    """
    name = run["name"] if run["run_count"] else names.get(run["deployment_id"], run["name"])
    when, state = local_time(began_or_due(run)), run["state"]["name"]
    return RunStatus(name=name, when=when, state=state, note=note, by_hand=not is_night(run))


def began_or_due(run: dict[str, Any]) -> str:
    """Return the time when the run started or, if it never started, the time when it was due."""
    return str(run["start_time"] or run["expected_start_time"])


def progress(query: PrefectQuery, run: dict[str, Any]) -> str:
    return "; ".join(filter(None, [resumption(query, run), last_log_line(query, run)]))


def waits_for(query: PrefectQuery, run: dict[str, Any]) -> str:
    what = WAITS_FOR.get(run["state"]["name"], "the worker")
    return "; ".join(filter(None, [what, resumption(query, run)]))


def resumption(query: PrefectQuery, run: dict[str, Any]) -> str:
    """Return a text such as `resumes after a crash` for a run that continues an interrupted one, else ""."""
    if RESUMED not in run["tags"]:
        return ""
    before = [one for one in query.last_runs(run["deployment_id"], FINISHED) if one["created"] < run["created"]]
    return "resumes after a stop" if before and before[0]["state"]["name"] == STOPPED else "resumes after a crash"


def message_of(run: dict[str, Any]) -> str:
    return (run["state"].get("message") or "").strip()


def last_log_line(query: PrefectQuery, run: dict[str, Any]) -> str:
    """Return rnnlm's last log line of the run, which shows the run's progress."""
    logs = query.logs(run["id"], "rnnlm.")
    return logs[0]["message"].strip().partition("\n")[0] if logs else ""


def gate_note(query: PrefectQuery, run: dict[str, Any]) -> str:
    """Return the reason why the data checks stopped the run, or their warnings.

    An example is `toy · smoke · 23 Nov 02:00 stopped: …`.
    """
    _, stopped, reason = message_of(run).partition("\n")[0].partition(f"{CHAMPION_STAYS}: ")
    if stopped:
        return f"{run['name']} stopped: {reason}"
    warnings = query.logs(run["id"], data_gates.logger.name, level={"ge_": logging.WARNING})
    found = (log["message"].removeprefix("gates: ") for log in reversed(warnings))
    return f"{run['name']} warned: {' · '.join(found)}" if warnings else ""


def champions(home: Home) -> tuple[ChampionStatus, ...]:
    """Return the champions in the rnnlm home's own store or on an MLflow server.

    Only a server requires an import of MLflow.
    """
    try:
        found = champions_in_file(home.mlflow_database) if is_embedded(home) else champions_of_server(home)
    # Either the server does not respond, or there is no store yet, or its database has other tables.
    except (TrackingError, sqlite3.Error):
        return ()
    return tuple(champion_status(name, number, versions) for name, (number, versions) in found.items())


def champions_of_server(home: Home) -> dict[str, tuple[int, list[RegistryVersion]]]:
    """Return the champions on the MLflow server, in the same form as champions_in_file()."""
    found = [version for version in list_models(home) if "champion" in version.aliases]
    with reaching_mlflow(home) as client:
        return {one.name: (one.version, read_versions(client, one.name)) for one in found}


def without_champion(home: Home, having_one: set[str]) -> tuple[str, ...]:
    """Return one line for each model of rnnlm without a champion, with the command that sets one.

    A user may have deleted the champion or its alias in MLflow.
    """
    try:
        lines = {name: repair_line(home, name) for name in sorted(model_names(home) - having_one)}
    except TrackingError:
        return ()
    return tuple(f"{name}: no champion; {line}" for name, line in lines.items() if line)


def model_names(home: Home) -> set[str]:
    if not is_embedded(home):
        return {version.name for version in list_models(home)}
    # The next line leaves out names with an alias, such as NAME@ALIAS.
    names = set(local_model_names(home))
    return {name for name in names if name.rpartition("@")[0] not in names}


def repair_line(home: Home, name: str) -> str:
    """Return the command that sets the model's champion, or "" if another program created the model."""
    versions = registered_versions(home, name)
    if not versions:
        return "no version is left, and the next run registers one" if name.startswith("rnnlm-") else ""
    ours = {number for number, version in versions.items() if version.facts}
    if not ours:
        return ""
    if champion_before(read_history(versions.values()), None, ours):
        return f"rnnlm rollback {name}"
    return f"rnnlm promote {name}/{max(ours)}"


def champion_status(model: str, number: int, versions: list[RegistryVersion]) -> ChampionStatus:
    """Return the status of a champion. `versions` are all versions of the model."""
    history = read_history(versions)
    facts = next((version.facts for version in versions if version.number == number), {})
    figure = facts.get("bits_per_byte")
    return ChampionStatus(
        model=model,
        version=number,
        since=local_time(history[-1].when) if history else "",
        kept=nights_kept(number, versions),
        bits_per_byte="" if figure is None else f"{float(figure):.3f}",
    )


def nights_kept(champion: int, versions: list[RegistryVersion]) -> str:
    kept, since = kept_before(versions, champion), kept_since(versions, champion)
    return f"{kept} night{'' if kept == 1 else 's'} since {local_time(since)}" if since else ""


def disk_bytes(home: Home) -> dict[str, int]:
    """Return the size in bytes of each visible folder or file of the rnnlm home, the largest first."""
    if not home.root.exists():
        return {}
    sizes = {path.name: size_of(path) for path in home.root.iterdir() if not path.name.startswith(".")}
    shown = {name: size for name, size in sorted(sizes.items(), key=lambda item: -item[1]) if size >= 50_000}
    return {**shown, "all": sum(sizes.values())}
