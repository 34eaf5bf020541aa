"""A real MLflow server on a loopback address. Tests can stop it and start it again at the same address."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from rnnlm.runtime.ports import free_port

START_TIMEOUT_SECONDS = 60


class TrackingServer:
    def __init__(self, folder: Path, template: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "mlflow.db").write_bytes(template.read_bytes())
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it responds."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        environment = os.environ | {
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        environment.pop("MLFLOW_TRACKING_URI", None)
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self.wait_until_it_answers()
        except BaseException:  # The server is stopped even if the test is interrupted.
            self.stop()
            raise

    def wait_until_it_answers(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not answers(f"{self.address}/health"):
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.2)

    def stop(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):  # The server may already have ended.
                os.killpg(self.process.pid, signal.SIGTERM)  # The signal to the group also ends the server's worker.
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.process = None


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False
