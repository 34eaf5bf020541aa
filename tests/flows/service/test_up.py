"""A real `rnnlm up` starts every server, survives kill -9, resumes interrupted runs, and leaves no process."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from flows.operations.home_servers import RunningHome, home_password, read_running
from flows.operations.prefect_query import PrefectQuery
from flows.service.home_processes import find_home_processes
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import reaching_mlflow

PATIENCE_SECONDS = 300
SMALL = ["model.hidden_size=16", "tokenizer.kind=word", "training.device=cpu", "sequences.processes=1"]


class Up:
    """The commands of a user with one rnnlm home."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.ports = ["--port", str(free_port()), "--mlflow-port", str(free_port())]

    def rnnlm(self, *arguments: str, code: int = 0) -> str:
        """Run a command, assert that its exit code is `code`, and return its standard output and standard error."""
        command = [sys.executable, "-m", "flows.command_line", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}\n{self.rnnlm('logs', '-n', '50')}"
        return done.stdout + done.stderr

    def running(self) -> RunningHome:
        running = read_running(self.home)
        assert running is not None
        return running

    def flow_runs(self) -> list[dict[str, Any]]:
        """Return all runs that have started, the newest first."""
        begun = {"state": {"type": {"not_any_": ["SCHEDULED"]}}}
        query = PrefectQuery(self.running().prefect_api, home_password(self.home))
        found: list[dict[str, Any]] = query.post("flow_runs/filter", flow_runs=begun, sort="START_TIME_DESC")
        return found

    def pipeline_runs(self) -> list[dict[str, Any]]:
        return [run for run in self.flow_runs() if "own-schedule" in run["tags"]]

    def processes(self) -> list[psutil.Process]:
        found = find_home_processes(self.home)
        return [*found.services, *found.flow_runs.values()]

    def kill(self, service: str) -> None:
        """Kill only the process of the service, not its children."""
        services = find_home_processes(self.home).services
        [leader] = [
            one for one in services if one.environ()["RNNLM_SERVICE"] == service and one.pid == os.getsid(one.pid)
        ]
        leader.kill()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        # HTTPError is ignored, because the server has just been killed.
        came = poll_until(condition, PATIENCE_SECONDS, ignored=httpx.HTTPError)
        assert came, f"no {what}\n{self.rnnlm('logs', '-n', '50')}"

    def history_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.home.runs.glob("*/history.jsonl"))


@pytest.fixture
def up(home: Home) -> Iterator[Up]:
    up = Up(home)
    try:
        yield up
    finally:
        left = [psutil.Process(running.pid)] if (running := read_running(home)) else []
        for process in [*left, *up.processes()]:
            process.kill()


@pytest.mark.slow
def test_a_night_survives_a_kill_of_every_part(up: Up, toy_folder: Path) -> None:
    up.rnnlm("up", "--detach", *up.ports)
    assert "already up" in up.rnnlm("up", "--detach", *up.ports)
    assert "the servers are already up, on the ports" in up.rnnlm("up", "--port", str(free_port()), code=2)
    other = {"RNNLM_HOME": str(toy_folder.parent / "other")}
    command = [sys.executable, "-m", "flows.command_line", "up", *up.ports]
    refused = subprocess.run(command, env=os.environ | other, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert f"port {up.ports[1]} is not free: process " in refused.stderr

    # Training must outlast this test, which kills it four times.
    settings = [*SMALL, "training.epochs=100000", "training.checkpoints.every_seconds=1"]
    options = [part for setting in settings for part in ("--set", setting)]
    scheduled = up.rnnlm("schedule", "--corpus", os.path.relpath(toy_folder), "--name", "mine", *options)
    assert "pipeline/mine" in scheduled
    # The first schedule of a user pauses the `nightly` deployment, which is an example.
    assert "paused     pipeline/nightly" in scheduled
    assert "0 2 * * *" in up.rnnlm("schedules")
    up.rnnlm("trigger", "mine")
    up.wait_for(lambda: up.history_bytes() > 0, "training")
    up.wait_for(lambda: "training: step" in up.rnnlm("status"), "progress in rnnlm status")

    for service in ("prefect", "mlflow"):
        before = up.history_bytes()
        up.kill(service)
        up.wait_for(lambda before=before: up.history_bytes() > before, f"training without {service}")
    up.wait_for(lambda: up.pipeline_runs()[0]["state"]["type"] == "RUNNING", "Prefect's server")

    up.kill("worker")  # The flow run ends together with its worker, and another worker continues it.
    up.wait_for(lambda: "resumed" in up.pipeline_runs()[0]["tags"], "resumed run after the worker's end")
    before = up.history_bytes()
    up.wait_for(lambda: up.history_bytes() > before, "training after the worker's end")

    # Only the flow run's process is killed, as by the kernel if memory is exhausted. The run must be restarted before
    # the next scheduled run of `settle`.
    before, killed = len(up.pipeline_runs()), find_home_processes(up.home).flow_runs
    for process in killed.values():
        process.kill()
    up.wait_for(lambda: len(up.pipeline_runs()) == before + 1, "resumed run after its process was killed")
    assert all({"toy", "default", "mine"} <= set(run["tags"]) for run in up.pipeline_runs())
    assert all(run["name"].startswith("mine · toy · ") for run in up.pipeline_runs())
    living = {run["id"] for run in up.flow_runs() if run["state"]["type"] == "RUNNING"}
    assert not living & set(killed)
    before = up.history_bytes()
    up.wait_for(lambda: up.history_bytes() > before, "training after the process of a flow run was killed")

    psutil.Process(up.running().pid).kill()
    up.wait_for(lambda: read_running(up.home) is None, "end of rnnlm up")
    assert "killed rnnlm up" in up.rnnlm("status")
    up.rnnlm("up", "--detach", *up.ports)
    up.wait_for(lambda: len(up.pipeline_runs()) == 4, "resumed run after rnnlm up was killed")
    before = up.history_bytes()
    up.wait_for(lambda: up.history_bytes() > before, "training after rnnlm up was killed")

    # In a power failure, all processes end at once. In Prefect's database, the run is then still RUNNING and occupies
    # its slot.
    for process in [psutil.Process(up.running().pid), *up.processes()]:
        process.kill()
    up.wait_for(lambda: up.processes() == [] and read_running(up.home) is None, "end of everything")
    assert len(list((up.home.prefect / "concurrency_leases").glob("*-*.json"))) == 1
    up.rnnlm("up", "--detach", *up.ports)
    up.wait_for(lambda: len(up.pipeline_runs()) == 5, "resumed run after the power cut")
    before = up.history_bytes()
    up.wait_for(lambda: up.history_bytes() > before, "training after the power cut")

    # rnnlm down must let runs write a checkpoint, give every run a final state, and leave no process.
    up.rnnlm("down")
    assert up.processes() == []
    assert list(up.home.runs.glob("*/checkpoints/*"))
    assert "nothing was running" in up.rnnlm("down")

    up.rnnlm("up", "--detach", *up.ports)
    types = {"CRASHED", "CANCELLED", "COMPLETED", "PENDING", "RUNNING"}
    assert {run["state"]["type"] for run in up.flow_runs()} <= types
    # This is the run that rnnlm down stopped.
    assert [run["state"]["name"] for run in up.pipeline_runs()].count("Stopped") == 1
    short = [part for setting in [*SMALL, "training.epochs=1"] for part in ("--set", setting)]
    up.rnnlm("schedule", "--corpus", str(toy_folder), "--name", "short", *short)
    followed = up.rnnlm("trigger", "short", "--wait")
    assert "becomes champion" in followed
    assert "ended      Completed" in followed
    up.wait_for(lambda: "rnnlm-toy" in up.rnnlm("status"), "champion")
    status = json.loads(up.rnnlm("status", "--json").splitlines()[0])
    assert status["champions"][0]["model"] == "rnnlm-toy"
    nights = {night["schedule"]: night for night in status["by_hand"]}
    assert nights["short"]["state"] == "Completed"
    decision, score = nights["short"]["outcome"].splitlines()
    assert re.fullmatch(r"On its own test split it has \d\.\d{3} bits per byte \(perplexity [\d.]+\)\.", score)
    assert decision == "rnnlm-toy version 1 is the new champion: there was no champion before it."
    assert {night["schedule"]: bool(night["next"]) for night in status["nights"]}["short"]
    assert "by hand    short: " in up.rnnlm("status")
    up.rnnlm("trigger", "settle")  # The scheduled run of `settle` may do the same at this time.
    assert "ended      Completed" in up.rnnlm("trigger", "settle", "--wait")
    assert "deleted pipeline/mine" in up.rnnlm("unschedule", "mine")
    assert "paused pipeline/nightly" in up.rnnlm("unschedule", "nightly")
    assert "pipeline/mine" not in up.rnnlm("schedules")
    process = psutil.Process(up.running().pid)
    process.send_signal(signal.SIGINT)  # Ctrl-C on the terminal of rnnlm up sends this signal.
    process.wait(PATIENCE_SECONDS)
    assert up.processes() == []
    with reaching_mlflow(up.home) as client:
        experiments = [found.experiment_id for found in client.search_experiments()]
        assert {run.info.status for run in client.search_runs(experiments)} == {"FINISHED", "KILLED"}
