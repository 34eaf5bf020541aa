"""Run Prefect, MLflow and a worker on this machine with `rnnlm up`, `down`, `status` and `logs`."""

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer

from flows.commands.command import Session
from flows.operations.home_servers import PASSWORD_FILE, RunningHome, home_password, read_running
from flows.operations.prefect_environment import PREFECT_PORT
from flows.operations.prefect_query import PrefectQuery
from flows.service.home_processes import stop_home
from flows.service.service_process import SERVICES, LogReader, last_lines, log_file
from flows.service.supervisor import Supervisor, start_detached
from flows.service.systemd_unit import install_unit
from rnnlm.display.text_layout import labelled, shorten, terminal_text, text_tables
from rnnlm.errors import ConfigError, RnnlmError
from rnnlm.storage.disk_errors import refuse_damaged_database

if TYPE_CHECKING:
    from flows.service.status import HomeStatus

HEADING = "Every night"
MLFLOW_PORT = 5000  # The default port of `mlflow ui`.
Port = Annotated[int, typer.Option("--port", metavar="N", help="Port of Prefect's server and UI.", min=1, max=65_535)]
MlflowPort = Annotated[
    int, typer.Option("--mlflow-port", metavar="N", help="Port of MLflow's server and UI.", min=1, max=65_535)
]


def up_command(
    session: Session,
    port: Port = PREFECT_PORT,
    mlflow_port: MlflowPort = MLFLOW_PORT,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return as soon as everything is running, and keep it running.")
    ] = False,
    install: Annotated[
        bool, typer.Option("--install", help="Write a systemd user unit that starts everything at every login.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the logs. rnnlm logs shows them.")] = False,
) -> None:
    """Start everything that nightly runs need: Prefect, MLflow, a worker and the deployments.

    Ctrl-C or rnnlm down stops all of them. Flow runs that are interrupted by this are resumed by the next rnnlm up.

    rnnlm up
    rnnlm up --detach --port 4300 --mlflow-port 5100
    """
    if install:
        lines = install_unit(session.home, port, mlflow_port)
        session.print_result("\n".join(lines), lines)
        return
    if running := read_running(session.home):
        asked, has = (port, mlflow_port), (running.prefect_port, running.mlflow_port)
        if asked not in (has, (PREFECT_PORT, MLFLOW_PORT)):
            raise ConfigError(
                f"the servers are already up, on the ports {has[0]} and {has[1]}, not on {port} and {mlflow_port};\n"
                "stop them first with rnnlm down"
            )
        session.print_result(f"already up\n{up_text(session, running)}", asdict(running))
        return
    for database in (session.home.prefect / "prefect.db", session.home.mlflow_database):
        refuse_damaged_database(database)
    if detach:
        running = wait_until_up(session, port, mlflow_port)
        session.print_result(up_text(session, running), asdict(running))
        return

    def show(line: str) -> None:
        if not quiet:
            print(terminal_text(line), file=sys.stderr, flush=True)

    def when_ready(running: RunningHome) -> None:
        session.print_result(up_text(session, running), asdict(running))

    Supervisor(session.home, port, mlflow_port, show).run(when_ready)


def wait_until_up(session: Session, port: int, mlflow_port: int) -> RunningHome:
    """Start `rnnlm up` in the background. If it ends, raise RnnlmError with its last log lines."""
    print("starting Prefect, MLflow, the deployments and a worker …", file=sys.stderr, flush=True)
    process = start_detached(session.home, port, mlflow_port)
    while True:
        running = read_running(session.home)
        if running is not None and running.ready and running.pid == process.pid:
            return running
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
        last = [line.removeprefix("rnnlm: ") for line in last_lines(log_file(session.home, "up"), 3)]
        raise RnnlmError("\n".join(["rnnlm up ended while starting:", *last[-2:]]))


def up_text(session: Session, running: RunningHome) -> str:
    from flows.service.status import next_runs
    from rnnlm.tracking.mlflow_store import TRAINING_VIEW

    coming: dict[str, str] = {}
    with contextlib.suppress(httpx.HTTPError):  # Prefect may be too busy to respond, even if all servers are running.
        coming = next_runs(PrefectQuery(running.prefect_api, home_password(session.home)))
    lines = [
        labelled("home", str(session.home.root)),
        labelled("prefect", running.prefect_url),
        labelled("login", f"user:password is in {session.home.root / PASSWORD_FILE}; Prefect asks for all of it"),
        labelled("mlflow", os.environ.get("MLFLOW_TRACKING_URI", f"{running.mlflow_url}/#/models?{TRAINING_VIEW}")),
        *listed("next", [f"{when} {name}" for name, when in coming.items()][:3]),
        labelled("your text", "rnnlm schedule --corpus my-folder/"),
    ]
    return "\n".join(lines)


def down_command(session: Session) -> None:
    """Stop what rnnlm up has started. Training writes a checkpoint first.

    rnnlm down
    """
    stopped = stop_home(session.home)
    session.print_result("stopped" if stopped else "nothing was running", {"stopped": stopped})


def status_command(session: Session) -> None:
    """Show running, last and next runs, failed checks, champions, disk use and errors.

    rnnlm status
    """
    from flows.service.status import read_status

    status = read_status(session.home)
    session.print_result(status_text(status), status)


def status_text(status: "HomeStatus") -> str:
    lines = [labelled("home", status.home), *listed("servers", status.servers or ["not up; rnnlm up starts them"])]
    for run in status.running:
        state = "" if run.state == "Running" else f"; {run.state}"
        lines += listed("running", [run.name, f"since {run.when}{state}" + (f"; {run.note}" if run.note else "")])
    for run in status.waiting:
        by_hand = ", by hand" if run.by_hand else ""
        lines.append(labelled("waiting", f"{run.name}{by_hand}: due {run.when}, waits for {run.note}"))
    for night in status.nights:
        last = f"{night.when} {night.state}" if night.when else "has not run"
        following = f"next {night.next}" if night.next else "paused"
        lines += listed("night", [f"{night.schedule}: {last}; {following}", *night.outcome.splitlines()])
    for one in status.by_hand:
        lines += listed("by hand", [f"{one.schedule}: {one.when} {one.state}", *one.outcome.splitlines()])
    for line in status.without_champion:
        # The command after the semicolon is shown on a separate line.
        lines += listed("champion", line.split("; "))
    if status.gates:
        lines.append(labelled("gates", status.gates))
    tables: dict[str, list[dict[str, Any]]] = {
        "next": [{"deployment": run.name, "when": run.when} for run in status.next],
        "last": [
            {
                "run": shorten(run.name, 42),
                "when": run.when,
                "state": run.state,
                "by": "hand" if run.by_hand else "schedule",
            }
            for run in status.last
        ],
        "champions": [
            {
                "model": row.model,
                "version": row.version,
                "since": row.since,
                "kept": row.kept,
                "test bits/byte": row.bits_per_byte,
            }
            for row in status.champions
        ],
        "disk": [{"kind": kind, "MB": f"{size / 1e6:,.1f}"} for kind, size in disk_rows(status).items()],
    }
    lines += text_tables(tables)
    lines += ["", "errors"] if status.errors else []
    for run in status.errors:
        lines += [f"  {run.when}  {run.name}", textwrap.indent(textwrap.fill(run.note, 74), "    ")]
    return "\n".join(lines)


def disk_rows(status: "HomeStatus") -> dict[str, int]:
    free = {} if status.free_bytes is None else {"free on this disk": status.free_bytes}
    return status.disk_bytes | free


def listed(name: str, lines: Sequence[str]) -> list[str]:
    """Return the lines. The first line begins with the name, and further lines are indented."""
    return [labelled(name if index == 0 else "", line) for index, line in enumerate(lines)]


def logs_command(
    session: Session,
    service: Annotated[
        str | None, typer.Argument(metavar="SERVICE", help=f"One of {', '.join(SERVICES)}. Default: all.")
    ] = None,
    number: Annotated[
        int, typer.Option("-n", "--number", metavar="N", help="Number of last lines of each log to show.", min=0)
    ] = 20,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue to print new lines until Ctrl-C.")] = False,
) -> None:
    """Print the logs of rnnlm up, of the servers and of the worker. The worker's log includes the flow runs.

    rnnlm logs worker -f
    """
    if follow and session.json:
        raise ConfigError(
            "--follow prints lines as they arrive, which are not a JSON value; leave out --follow or --json"
        )
    if service is not None and service not in SERVICES:
        raise ConfigError(f"{service}: no such service; expected one of {', '.join(SERVICES)}")
    names = [service] if service else list(SERVICES)
    readers = {name: LogReader(log_file(session.home, name)) for name in names}
    lines = {name: last_lines(log_file(session.home, name), number) for name in names}
    text = "\n".join(f"{name:<8} {line}" for name in names for line in lines[name])
    session.print_result(text or "no logs yet; rnnlm up starts the servers", lines)
    while follow:
        for name, reader in readers.items():
            for line in reader.new_lines():
                session.print_line(terminal_text(f"{name:<8} {line}"))
        time.sleep(0.5)
