"""Processes of an rnnlm home are found by their environment and stopped.

An occupied port is reported with its process.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flows.service.home_processes import (
    check_port,
    find_home_processes,
    stop_flow_runs,
    stop_processes,
    stop_services,
)
from rnnlm.storage.home import Home

SLEEP = "import time; print('ready', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); time.sleep(600)"


def start(home: Home, code: str, **variables: str) -> "subprocess.Popen[str]":
    environment = os.environ | {"RNNLM_HOME": str(home.root)} | variables
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_services_and_flow_runs_of_this_home_alone_are_found(home: Home, tmp_path: Path) -> None:
    service = start(home, SLEEP, RNNLM_SERVICE="worker")
    flow_run = start(home, SLEEP, RNNLM_SERVICE="worker", PREFECT__FLOW_RUN_ID="a")
    stranger = start(Home(tmp_path / "other"), SLEEP, RNNLM_SERVICE="worker")
    try:
        found = find_home_processes(home)
        assert [process.pid for process in found.services] == [service.pid]
        assert {run: process.pid for run, process in found.flow_runs.items()} == {"a": flow_run.pid}
        assert len(stop_flow_runs(home, 10)) == 1
        assert flow_run.wait(10) == -signal.SIGTERM
        assert stop_services(home) == 1
        assert service.wait(10) == -signal.SIGTERM
        assert stranger.poll() is None
    finally:
        for process in (service, flow_run, stranger):
            process.kill()
            process.wait()


def test_a_process_that_ignores_sigterm_is_killed(home: Home) -> None:
    deaf = start(home, DEAF, PREFECT__FLOW_RUN_ID="a")
    stop_flow_runs(home, 0.2)
    assert deaf.wait(10) == -signal.SIGKILL


def test_the_end_of_a_paused_workers_flow_run_is_noticed(home: Home) -> None:
    """The end of a flow run is noticed even if its worker is suspended and the flow run stays a zombie."""
    worker = start(home, PARENT, RNNLM_SERVICE="worker", PREFECT__FLOW_RUN_ID="a")
    [flow_run] = find_home_processes(home).flow_runs["a"].children()
    try:
        worker.send_signal(signal.SIGSTOP)
        waiter = threading.Thread(target=stop_processes, args=([flow_run], 600), daemon=True)
        waiter.start()
        waiter.join(60)
        assert not waiter.is_alive()
        assert flow_run.status() == "zombie"
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.parametrize(("option", "detach"), [("--port", ()), ("--mlflow-port", ("--detach",))])
def test_up_on_a_busy_port_names_its_process_before_anything_is_started(
    tmp_path: Path, option: str, detach: tuple[str, ...]
) -> None:
    # The command has several lines, which are joined to one in the message.
    script = "import socket, sys\nserver = socket.create_server(('127.0.0.1', 0))\n"
    script += "print(server.getsockname()[1], flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        done = subprocess.run(
            [sys.executable, "-m", "flows.command_line", "up", *detach, option, port],
            env=os.environ | {"RNNLM_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )
        server.kill()
    assert done.returncode != 0
    *_, what, advice = done.stderr.splitlines()
    assert f"port {port} is not free: process {server.pid} listens there (" in what
    assert advice == f"stop that process, or choose another port with {option}"
    assert not (tmp_path / "home" / "prefect" / "prefect.db").exists()
    assert not (tmp_path / "home" / "mlflow.db").exists()


def test_a_free_port_is_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    check_port(port, "--port")
