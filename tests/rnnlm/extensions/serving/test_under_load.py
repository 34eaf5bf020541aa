"""Slow tests of the service with many requests, hostile requests, and other servers and environments."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks import serve as load
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import reaching_mlflow, tracking_uri
from tests.registrar import Registrar
from tests.rnnlm.extensions.serving.live_server import serving
from tests.tracking_server import answers

pytestmark = pytest.mark.slow
MEASURED = 5_000  # After this number of requests, memory must not have grown.
STRANGER = """
import importlib.util, json, sys
import mlflow
others = ("rnnlm", "flows", "tasks", "transformers", "prefect", "duckdb")
present = [name for name in others if importlib.util.find_spec(name)]
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
print(json.dumps([present, model.predict(json.loads(sys.argv[3]))]))
"""
ASKED = [{"prompt": "the cat", "temperature": 0.0, "maximum_tokens": 5}, {"text": "the cat sees the dog ."}]


@pytest.fixture
def champion(registered: Registrar) -> str:
    """Return the registered name of the champion's model."""
    return registered().name


def test_memory_is_steady_over_5000_requests(toy_model: Path, home: Home) -> None:
    requests: list[dict[str, Any]] = load.prompts(MEASURED, 20)
    requests[::5] = [{"text": f"the cat sees {seed}"} for seed in range(0, MEASURED, 5)]
    with load.served(str(toy_model)) as (host, port, process_id):
        warm = load.put_under_load(host, port, requests[:1_000], 32)
        before = load.resident_mebibytes(process_id)
        result = load.put_under_load(host, port, requests, 16)
        grown = load.resident_mebibytes(process_id) - before
    assert (warm.failures, result.failures) == ([], [])
    assert grown < 16


def test_no_request_that_the_openapi_document_suggests_ends_in_a_5xx(toy_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis", reason="pip install 'rnnlm[dev]'")
    # The limit is high, because a busy machine would otherwise respond with 503.
    with serving(toy_model, maximum_seconds=600) as live:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{live.address}/openapi.json"]
        # The client's timeout is high, because 2,000 tokens take long on a busy machine.
        command += ["--request-timeout", "300"]
        command += ["--checks", "not_a_server_error", "--max-examples", "25", "--seed", "1", "--no-color"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-2_000:]


def test_mlflow_serves_the_champion_too(champion: str, tracked_home: Home, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", f"models:/{champion}@champion"]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"MLFLOW_TRACKING_URI": tracking_uri(tracked_home), "MLFLOW_DISABLE_TELEMETRY": "true"}
    # The command starts uvicorn by its name, so its folder must be in PATH.
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        assert poll_until(lambda: answers(f"http://127.0.0.1:{port}/health"), 120), (tmp_path / "log").read_text()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations",
            json.dumps({"inputs": ASKED}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            continued, scored = json.load(answer)["predictions"]
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=60)
    assert continued["text"]
    assert scored["perplexity"] > 1


def test_the_champion_answers_in_a_fresh_environment(champion: str, tracked_home: Home, tmp_path: Path) -> None:
    """The champion can be served in a new environment with only the packages of the model's requirements.txt.

    The environment does not contain rnnlm, and loading the model needs no pickle.
    """
    with reaching_mlflow(tracked_home) as client:
        source = client.get_model_version_by_alias(champion, "champion").source
    requirements = Path(str(source).removeprefix("file://")) / "requirements.txt"
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
    constraints = Path(__file__).resolve().parents[4] / "constraints.txt"
    install = [str(fresh / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", str(requirements), "-c", str(constraints)], check=True, timeout=1_200)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false"}
    done = subprocess.run(
        [str(fresh / "bin" / "python"), "-I", "-c", STRANGER]
        + [tracking_uri(tracked_home), f"models:/{champion}@champion", json.dumps(ASKED)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    present, (continued, scored) = json.loads(done.stdout.splitlines()[-1])
    assert present == []
    assert continued["text"]
    assert scored["perplexity"] > 1
