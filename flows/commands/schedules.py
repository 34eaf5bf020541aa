"""Schedule the pipeline on texts, and start runs: schedule, schedules, unschedule and trigger."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer

from flows.commands.command import Session
from flows.commands.option_groups import some_of
from flows.commands.options import PipelineOptions, RequiredCorpus
from flows.operations.prefect_query import FINISHED, PrefectQuery, health_problem
from flows.operations.schedule_times import local_time
from rnnlm.config.presets import SHORT_SETTINGS
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.corpora.source_names import absolute_source
from rnnlm.display.text_layout import columns, labelled, terminal_text
from rnnlm.errors import ConfigError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

    from flows.operations.schedules import ScheduleRow

HEADING = "Every night"
FOLLOW_SECONDS = 2.0  # The number of seconds between two queries about a run whose log is followed.
SILENT_SECONDS = 600.0  # The number of seconds without an answer after which a server counts as lost.
# The number of queries after the end of a run, because its last log lines arrive some seconds later.
LOOKS_AFTER_END = 3
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a deployment, as listed by rnnlm schedules.")]


def schedule_command(
    session: Session,
    corpus: RequiredCorpus,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the schedule. Default: the corpus's name.")
    ] = None,
    cron: Annotated[
        str,
        typer.Option(
            metavar="CRON", help="Start times of the runs in cron format: minute, hour, day, month and weekday."
        ),
    ] = "0 2 * * *",
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of the start times, such as Europe/Berlin.")
    ] = "UTC",
    *,
    options: Annotated[PipelineOptions, some_of("preset", "config", *SHORT_SETTINGS, "set")],
) -> None:
    """Run the pipeline on your own text on a schedule. An existing schedule of the same name is changed.

    rnnlm schedule --corpus /data/tickets/ --minutes 10
    rnnlm schedule --corpus notes.txt --cron '30 4 * * 1-5' --timezone Europe/Berlin --name notes
    """
    from flows.operations.schedule_times import planned_times
    from flows.operations.schedules import check_name, list_schedules, schedule, with_own_model
    from rnnlm.registry.version_tags import registered_name

    settings = options.pipeline_config(absolute_source(corpus))
    check_name(name or corpus_name(settings.corpus))
    times = planned_times(cron, timezone)
    with prefect_query() as query:
        settings = with_own_model(query, session.home, settings, name)
        name = name or corpus_name(settings.corpus)
        with prefect_client() as client:
            full, paused_example = schedule(client, name, settings, cron, timezone)
        [row] = [row for row in list_schedules(query) if row.name == full]
    own = full.partition("/")[2]
    text = [
        labelled("scheduled", f"{full}, {cron} {timezone}"),
        *(labelled("" if index else "runs at", f"{one:%a %Y-%m-%d %H:%M %Z}") for index, one in enumerate(times)),
        labelled("model", registered_name(settings.registry, corpus_name(settings.corpus))),
        labelled("next", f"rnnlm trigger {own}     (now)"),
        labelled("", "rnnlm schedules"),
    ]
    if paused_example:
        text.append(labelled("paused", "pipeline/nightly, the example on python-docs; resume it in the Prefect UI"))
    session.print_result(
        "\n".join(text), row.model_dump(mode="json") | {"times": [moment.isoformat() for moment in times]}
    )


def schedules_command(session: Session) -> None:
    """List what runs on a schedule: time, zone, the next and last run in local time, and the corpus.

    rnnlm schedules
    """
    from flows.operations.schedules import list_schedules

    with prefect_query() as query:
        rows = list_schedules(query)
    here = time.strftime("%Z")
    table = [
        {
            "name": row.name,
            "cron": row.cron,
            "zone": row.timezone,
            f"next, {here}": next_text(row),
            f"last, {here}": last_text(row),
        }
        for row in rows
    ]
    heads, *lines = (
        columns(table) if table else ["nothing is scheduled; rnnlm schedule --corpus my-folder/ adds a schedule"]
    )
    corpora = (f"  corpus {row.corpus}" if row.corpus else "" for row in rows)
    lines = [line for pair in zip(lines, corpora, strict=True) for line in pair if line]
    session.print_result("\n".join([heads, *lines]), rows)


def next_text(row: "ScheduleRow") -> str:
    if not row.active:
        return "paused"
    return local_time(row.next_run) if row.next_run else "never"


def last_text(row: "ScheduleRow") -> str:
    if row.last_run is None:
        return ""
    return f"{local_time(row.last_run)} {row.last_state}{', by hand' if row.last_by_hand else ''}"


def unschedule_command(session: Session, name: Name) -> None:
    """Delete a schedule that you created, or pause one that comes with rnnlm.

    rnnlm unschedule notes
    """
    from flows.operations.schedules import unschedule

    with prefect_query() as query, prefect_client() as client:
        done = unschedule(client, query, name)
    session.print_result(done, {"done": done})


def trigger_command(
    session: Session,
    name: Name,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for the end of the run. The exit code is 2 unless the run has completed."),
    ] = False,
) -> None:
    """Start a deployment's run now.

    rnnlm trigger notes
    rnnlm trigger notes --wait
    """
    from flows.operations.schedules import trigger

    with prefect_query() as query:
        full, run_id = trigger(query, name)
    address = query.api.removesuffix("/api")
    text = f"started    {full}\nwatch      {address}/runs/flow-run/{run_id}\n           rnnlm status"
    if not wait:
        session.print_result(text, {"deployment": full, "flow_run_id": run_id})
        return
    print(terminal_text(text), file=sys.stderr, flush=True)
    state = follow_run(query, run_id)
    outcome = " ".join(part for part in (state["name"], state["message"]) if part)
    value = {"deployment": full, "flow_run_id": run_id, "state": state["name"], "message": state["message"]}
    session.print_result(labelled("ended", outcome), value)
    if state["type"] != "COMPLETED":
        raise typer.Exit(2)


def follow_run(query: PrefectQuery, run_id: str) -> dict[str, Any]:
    """Print rnnlm's log lines of the run to standard error as they arrive, and return the run's final state."""
    # The query filter for log lines that were not printed yet. It still includes the last printed line.
    after: dict[str, Any] = {}
    shown: set[str] = set()
    looks_left = LOOKS_AFTER_END
    answered_at = time.monotonic()
    while time.monotonic() < answered_at + SILENT_SECONDS:
        with contextlib.suppress(httpx.HTTPError):  # A query may fail, because the server may be restarting.
            [run] = query.post("flow_runs/filter", flow_runs={"id": {"any_": [run_id]}})
            answered_at = time.monotonic()
            for log in reversed(query.logs(run_id, "rnnlm", **after)):
                if log["id"] not in shown:
                    print(terminal_text(log["message"]), file=sys.stderr, flush=True)
                    shown.add(log["id"])
                    after = {"timestamp": {"after_": log["timestamp"]}}
            if run["state"]["type"] in FINISHED:
                looks_left -= 1
            if looks_left == 0:
                return dict(run["state"])
        time.sleep(FOLLOW_SECONDS)
    raise ConfigError(f"Prefect has not answered for {SILENT_SECONDS / 60:.0f} minutes; see rnnlm status")


@contextlib.contextmanager
def prefect_query() -> Iterator[PrefectQuery]:
    """Yield a PrefectQuery for the server of `rnnlm up`, or for the server at PREFECT_API_URL.

    Raise ConfigError if there is no server, or if it responds with an error.
    """
    address = os.environ.get("PREFECT_API_URL")
    if address is None:
        raise ConfigError("no Prefect server: start one with rnnlm up --detach, or set PREFECT_API_URL")
    if problem := health_problem(address):
        raise ConfigError(f"PREFECT_API_URL={address}: no Prefect server answers ({problem});\nstart one with rnnlm up")
    try:
        yield PrefectQuery(address)
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        advice = "see the server's log: rnnlm logs"
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            advice = "set PREFECT_API_AUTH_STRING to the USER:PASSWORD of that server"
        raise ConfigError(f"PREFECT_API_URL={address}: Prefect answered with status {status};\n{advice}") from error
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise ConfigError(
            f"PREFECT_API_URL={address}: Prefect stopped answering ({reason});\nrun the command again"
        ) from error


def prefect_client() -> "SyncPrefectClient":
    """Return Prefect's own client for the current server. Importing it takes seconds."""
    from prefect.client.orchestration import get_client

    return get_client(sync_client=True)
