"""After a signal to `rnnlm run` or to its Prefect server, all results are kept.

No process is left, and no run in the state `Running`.
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.operations.prefect_query import wait_for_server
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import reaching_mlflow

ROOT = Path(__file__).resolve().parents[2]
LONG = ("training.epochs=2000", "training.device=cpu", "model.hidden_size=16", "tokenizer.minimum_count=1")
MEDIUM = ("training.epochs=200", *LONG[1:])
SHORT = ("training.epochs=1", *LONG[1:])
PATIENCE_SECONDS = 120


class Command:
    """A call of `rnnlm run` as from a terminal, in a separate process group."""

    def __init__(self, home: Home, corpus: Path, said: Path, settings: tuple[str, ...] = LONG) -> None:
        self.home, self.said = home, said
        command = [sys.executable, "-c", "from flows.command_line import console_entry; console_entry()", "run"]
        command += ["--corpus", str(corpus), *(part for setting in settings for part in ("--set", setting))]
        with said.open("w") as stream:
            self.process = subprocess.Popen(
                command,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                # The default handler is restored, because a background job of a shell may ignore SIGINT.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
            )

    def wait_for_training(self) -> Path:
        """Wait until a few steps are measured, and return the run's folder."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            for history in self.home.runs.glob("*/history.jsonl"):
                if history.read_bytes().count(b"\n") > 5:
                    return history.parent
            time.sleep(0.05)
        raise AssertionError(self.said.read_text())

    def living(self) -> list[int]:
        """Return the ids of running processes that use this rnnlm home."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("RNNLM_HOME") == str(self.home.root) and process.pid != os.getpid():
                    found.append(process.pid)
        return found

    def wait_until_nothing_lives(self) -> None:
        assert poll_until(lambda: not self.living(), PATIENCE_SECONDS, every_seconds=0.1), self.living()

    def end(self) -> None:
        for process in (self.process.pid, *self.living()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def command(tracked_home: Home, toy_folder: Path, tmp_path: Path) -> Iterator[Command]:
    command = Command(tracked_home, toy_folder, tmp_path / "said")
    try:
        yield command
    finally:
        command.end()


def states(home: Home) -> dict[str, list[str]]:
    """Return the states of runs in Prefect's database. The keys are the kinds of runs."""
    with contextlib.closing(sqlite3.connect(home.prefect / "prefect.db")) as connection:
        return {
            kind: sorted(row[0] for row in connection.execute(f"select state_type from {kind}_run"))
            for kind in ("flow", "task")
        }


def mlflow_status(home: Home, folder: Path) -> str:
    noted = json.loads((folder / "tracking.json").read_text())
    with reaching_mlflow(home) as client:
        return str(client.get_run(noted["mlflow_run_id"]).info.status)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_signal_leaves_a_checkpoint_one_line_and_nothing_running(
    command: Command, number: signal.Signals, to_all: bool
) -> None:
    folder = command.wait_for_training()
    os.killpg(command.process.pid, number) if to_all else command.process.send_signal(number)
    assert command.process.wait(PATIENCE_SECONDS) == 128 + number
    said = command.said.read_text()
    assert said.splitlines()[-1] == "rnnlm: interrupted; the same command resumes"
    assert "Traceback" not in said
    assert len(list((folder / "checkpoints").glob("step-*/COMPLETE"))) > 0
    command.wait_until_nothing_lives()
    found = states(command.home)
    assert {"RUNNING", "PENDING"}.isdisjoint(found["flow"] + found["task"]), found
    assert mlflow_status(command.home, folder) == "KILLED"


@pytest.mark.slow
def test_a_killed_command_leaves_no_server_behind(command: Command, toy_folder: Path, tmp_path: Path) -> None:
    folder = command.wait_for_training()
    command.process.kill()
    command.process.wait()
    command.wait_until_nothing_lives()
    assert states(command.home)["flow"] == ["RUNNING"]
    assert mlflow_status(command.home, folder) == "RUNNING"
    following = Command(command.home, toy_folder, tmp_path / "following", SHORT)
    try:
        assert following.process.wait(PATIENCE_SECONDS) == 0, following.said.read_text()
    finally:
        following.end()
    found = states(command.home)
    assert found["flow"] == ["COMPLETED", "CRASHED"]
    assert set(found["task"]) == {"CRASHED", "COMPLETED"}
    assert mlflow_status(command.home, folder) == "KILLED"


def server_of(command: Command) -> int:
    """Return the process id of the temporary server."""
    for number in command.living():
        with contextlib.suppress(psutil.Error):
            if "flows.operations.prefect_server" in " ".join(psutil.Process(number).cmdline()):
                return number
    raise AssertionError(command.living())


@pytest.mark.slow
def test_a_server_that_dies_in_mid_training_costs_nothing(tracked_home: Home, toy_folder: Path, tmp_path: Path) -> None:
    command = Command(tracked_home, toy_folder, tmp_path / "said", MEDIUM)
    try:
        folder = command.wait_for_training()
        os.kill(server_of(command), signal.SIGKILL)
        assert command.process.wait(PATIENCE_SECONDS) == 0, command.said.read_text()
    finally:
        command.end()
    said = command.said.read_text()
    assert "Prefect's temporary server ended with code -9; restarting it" in said
    assert "Traceback" not in said
    assert "registered rnnlm-toy version 1 as champion" in said
    assert (folder / "COMPLETE").exists()
    assert set(states(tracked_home)["flow"]) == {"COMPLETED"}


@pytest.mark.slow
def test_a_configured_server_that_is_lost_is_done_without(
    tracked_home: Home, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = str(free_port())
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "elsewhere"))
    start = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui"]
    server = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    try:
        wait_for_server(os.environ["PREFECT_API_URL"])
        command = Command(tracked_home, toy_folder, tmp_path / "said", MEDIUM)
        try:
            command.wait_for_training()
            os.killpg(server.pid, signal.SIGKILL)
            assert command.process.wait(3 * PATIENCE_SECONDS) == 0, command.said.read_text()
        finally:
            command.end()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    said = command.said.read_text()
    assert "is gone; finished work is kept" in said
    assert "Traceback" not in said
    assert "registered rnnlm-toy version 1 as champion" in said
