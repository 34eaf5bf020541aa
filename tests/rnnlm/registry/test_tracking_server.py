"""The same with a tracking server in place of the SQLite file: artifacts come back through it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.models.building import load_model
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord, SamplesRecord
from rnnlm.registry.lookup import list_models, model_folder
from rnnlm.registry.registering import register_model
from rnnlm.tracking.runs import open_tracker, run_url


@pytest.fixture
def server(tmp_path: Path, mlflow_template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a real MLflow server on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "mlflow.db").write_bytes(mlflow_template.read_bytes())
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    environment = os.environ | {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    environment.pop("MLFLOW_TRACKING_URI", None)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not answers(f"{address}/health"):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the server and the worker it started
        process.wait(timeout=20)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.mark.slow
def test_a_run_is_tracked_registered_and_found_through_a_server(
    home: Home,
    server: str,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    with open_tracker(home, toy_config, toy_dataset, toy_run.run_id) as tracker:
        pass
    run = toy_run.model_copy(update={"mlflow_run_id": tracker.mlflow_run_id})
    registered = register_model(home, toy_config, toy_dataset, run, toy_evaluation, toy_samples)
    assert [version.aliases for version in list_models(home)] == [("champion",)]
    folder = model_folder(home, registered.uri)
    assert folder.is_relative_to(home.root)
    load_model(folder)
    assert model_folder(home, registered.uri) == folder  # fetched once
    url = run_url(home, run)
    assert url is not None
    assert url.startswith(f"{server}/#/experiments/")
    assert not home.mlflow_database.exists()
