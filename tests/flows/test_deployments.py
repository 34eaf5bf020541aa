"""A real server: prefect.yaml is deployed, runs appear on schedule, a worker finishes a triggered one."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from flows.operations.deploying import CHECKOUT, deploy_all
from rnnlm.home import Home
from tests.conftest import give_store, home_in

PREFECT = [sys.executable, "-m", "prefect"]


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"no {what} within {seconds} s"
        time.sleep(0.25)


@pytest.fixture(scope="module")
def server_home(tmp_path_factory: pytest.TempPathFactory, mlflow_template: Path) -> Iterator[Home]:
    with home_in(tmp_path_factory.mktemp("deployed")) as home:
        give_store(home, mlflow_template)
        yield home


@pytest.fixture(scope="module")
def server(server_home: Home) -> Iterator[httpx.Client]:
    """A Prefect server on a free port, its database in a home of its own; one for all tests: it starts in seconds."""
    home = server_home
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    home.make(home.prefect)
    log = (home.root / "server.log").open("w")
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with pytest.MonkeyPatch.context() as environment, httpx.Client(base_url=url, timeout=30) as client:
        for name, value in {
            "PREFECT_HOME": str(home.prefect),
            "PREFECT_API_URL": url,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "true",
        }.items():
            environment.setenv(name, value)
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ.copy())

        def healthy() -> bool:
            try:
                return client.get("/health").status_code == 200
            except httpx.HTTPError:
                return False

        try:
            wait_for(healthy, 120, "server")
            yield client
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            log.close()


@pytest.fixture(scope="module")
def deployed(server: httpx.Client) -> list[str]:
    """The names of what was deployed."""
    return deploy_all()


def runs(client: httpx.Client, deployment_id: str, state: str) -> list[dict[str, object]]:
    query = {
        "deployments": {"id": {"any_": [deployment_id]}},
        "flow_runs": {"state": {"type": {"any_": [state]}}},
    }
    answer = client.post("/flow_runs/filter", json=query)
    answer.raise_for_status()
    found: list[dict[str, object]] = answer.json()
    return found


def test_deployed_runs_are_scheduled_and_a_worker_finishes_one(
    server: httpx.Client, deployed: list[str], server_home: Home, toy_folder: Path
) -> None:
    assert {"pipeline/nightly", "prepare/prepare", "train/train", "train/train-gpu"} <= set(deployed)
    assert {"sample/sample", "score/score"} <= set(deployed)
    queues = server.post("/work_pools/rnnlm/queues/filter", json={}).json()
    assert {"default", "gpu"} <= {queue["name"] for queue in queues}

    nightly = server.get("/deployments/name/pipeline/nightly").json()
    scoring = server.get("/deployments/name/score/score").json()
    for deployment in (nightly, scoring):
        wait_for(lambda id_=deployment["id"]: len(runs(server, id_, "SCHEDULED")) > 0, 60, "scheduled run")

    smoke = server.get("/deployments/name/pipeline/smoke").json()
    config = {
        "corpus": {"source": str(toy_folder)},
        "model": {"hidden_size": 16},
        "training": {"maximum_tokens": 500, "device": "cpu"},
    }
    created = server.post(f"/deployments/{smoke['id']}/create_flow_run", json={"parameters": {"config": config}})
    created.raise_for_status()
    run_id = created.json()["id"]
    worker = subprocess.run(
        [*PREFECT, "worker", "start", "--pool", "rnnlm", "--run-once", "--install-policy", "never"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    finished = server.get(f"/flow_runs/{run_id}").json()
    assert finished["state"]["type"] == "COMPLETED", worker.stdout[-3000:] + worker.stderr[-3000:]
    assert finished["name"] == f"pipeline of {toy_folder}"
    assert len(list(server_home.runs.glob("*/COMPLETE"))) == 1
    logs = server.post("/logs/filter", json={"logs": {"flow_run_id": {"any_": [run_id]}}}).json()
    assert logs


def test_bad_parameters_are_refused_before_a_run_exists(server: httpx.Client, deployed: list[str]) -> None:
    smoke = server.get("/deployments/name/pipeline/smoke").json()
    answer = server.post(
        f"/deployments/{smoke['id']}/create_flow_run",
        json={"parameters": {"config": {"model": {"layers": 0}}}},
    )
    assert answer.status_code in (409, 422)
    assert runs(server, smoke["id"], "PENDING") == []
