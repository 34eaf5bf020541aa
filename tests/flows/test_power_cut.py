"""Server, worker and flow are killed at once; after they are started again the next nightly run goes by itself."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.operations.home_servers import credentials
from flows.operations.prefect_query import wait_for_server
from flows.service.home_processes import free_port
from rnnlm.home import Home
from rnnlm.runtime.polling import poll_until
from rnnlm.tracking.mlflow_store import reaching_mlflow

PREFECT = [sys.executable, "-m", "prefect"]
CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 300


def rnnlm(*arguments: str) -> str:
    """What the command prints, in a process of its own: this one may have the Prefect server of other tests."""
    command = [sys.executable, "-m", "flows.command_line", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True).stdout


class Night:
    """Server and worker as a person starts them from README, on a free port."""

    def __init__(self, home: Home, log: Path) -> None:
        self.home = home
        self.log = log
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        port = os.environ["PREFECT_API_URL"].removesuffix("/api").rpartition(":")[2]
        self.run("server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui")
        wait_for_server(os.environ["PREFECT_API_URL"])

    def work(self) -> None:
        self.run("worker", "start", "--pool", "rnnlm", "--install-policy", "never")

    def run(self, *arguments: str) -> None:
        with self.log.open("a") as log:
            self.processes.append(
                subprocess.Popen([*PREFECT, *arguments], cwd=CHECKOUT, stdout=log, stderr=log, start_new_session=True)
            )

    def cut(self) -> None:
        """SIGKILL for all that works in this home."""
        mark = f"RNNLM_HOME={self.home.root}\0".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes() and int(path.parent.name) != os.getpid():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        for process in self.processes:
            process.wait()
        self.processes = []

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        assert poll_until(condition, PATIENCE_SECONDS), f"no {what}\n{self.log.read_text()[-5000:]}"


@pytest.fixture
def night(tracked_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{free_port()}/api")
    for name, value in json.loads(rnnlm("env", "--json")).items():
        monkeypatch.setenv(name, value)
    night = Night(tracked_home, tmp_path / "log")
    try:
        yield night
    finally:
        night.cut()


@pytest.mark.slow
def test_after_a_power_cut_the_next_night_runs_by_itself(night: Night, toy_folder: Path) -> None:
    small = {"corpus": {"source": str(toy_folder)}, "model": {"hidden_size": 16}}
    long = small | {"training": {"epochs": 2000, "device": "cpu"}}
    short = small | {"training": {"epochs": 1, "device": "cpu"}}
    night.start()
    rnnlm("deploy")
    password = credentials(os.environ["PREFECT_API_AUTH_STRING"])
    with httpx.Client(base_url=os.environ["PREFECT_API_URL"], auth=password, timeout=60) as client:

        def ask(method: str, path: str, json: object = None) -> Any:
            while (answer := client.request(method, path, json=json)).status_code == 503:
                time.sleep(1.0)  # SQLite is busy: Prefect's own client waits as well
            return answer.raise_for_status().json()

        def parameters(config: dict[str, object]) -> dict[str, object]:
            return {"parameters": {"config": config}}

        deployment = ask("GET", "/deployments/name/pipeline/nightly")

        def create(config: dict[str, object]) -> str:
            return str(ask("POST", f"/deployments/{deployment['id']}/create_flow_run", parameters(config))["id"])

        def state(run_id: str) -> str:
            return str(ask("GET", f"/flow_runs/{run_id}")["state"]["type"])

        killed = create(long)
        night.work()
        night.wait_for(lambda: any(night.home.runs.glob("*/history.jsonl")), "training")
        night.cut()

        assert len(list((night.home.prefect / "concurrency_leases").glob("*-*.json"))) == 1  # it survives
        night.start()
        assert state(killed) == "RUNNING"  # so says what the dead left
        following = create(short)
        # As the schedule does every 30 minutes. Without it the lease would end after 5.
        settling = ask("GET", "/deployments/name/settle/settle")
        settled = ask("POST", f"/deployments/{settling['id']}/create_flow_run", {})["id"]
        night.work()
        night.wait_for(lambda: state(settled) == "COMPLETED", "completed settling")
        assert state(killed) == "CRASHED"
        night.wait_for(lambda: state(following) == "COMPLETED", "completed run after the power cut")
        unfinished = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}
        assert ask("POST", "/flow_runs/filter", unfinished) == []
    with reaching_mlflow(night.home) as mlflow:
        experiments = [found.experiment_id for found in mlflow.search_experiments()]
        statuses = sorted(run.info.status for run in mlflow.search_runs(experiments))
    assert statuses == ["FINISHED", "KILLED"]
