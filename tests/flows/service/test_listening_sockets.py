"""Every server of `rnnlm up` refuses foreign names, other sites' pages, and whoever does not know the password."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from flows.operations.home_servers import RunningHome, credentials, home_password, read_running
from flows.operations.prefect_query import PrefectQuery
from flows.service.home_processes import find_home_processes
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from tests.conftest import home_in

RNNLM = [sys.executable, "-m", "flows.command_line"]
READ = {"prefect": "/api/flow_runs/filter", "mlflow": "/api/2.0/mlflow/experiments/search"}
WRITE = {"prefect": "/api/variables/", "mlflow": "/api/2.0/mlflow/registered-models/create"}
FOREIGN_ORIGINS = {
    "prefect": ("https://example.org", "http://example.org:4200", "http://127.0.0.1:1", "null"),
    "mlflow": ("https://example.org", "http://example.org:5000", "null"),  # MLflow trusts pages of every loopback port
}
BODY = {"prefect": {"name": "a", "value": 1}, "mlflow": {"name": "a"}}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, RunningHome]]:
    """A home with its servers; the umask is the usual one."""
    with home_in(tmp_path_factory.mktemp("listening")) as home:
        ports = ["--port", str(free_port()), "--mlflow-port", str(free_port())]
        started = subprocess.run([*RNNLM, "up", "--detach", *ports], capture_output=True, text=True, timeout=300)
        try:
            assert started.returncode == 0, started.stderr
            running = read_running(home)
            assert running is not None
            yield home, running
        finally:
            subprocess.run([*RNNLM, "down"], check=True, timeout=300)


def address(running: RunningHome, service: str) -> str:
    return running.prefect_url if service == "prefect" else running.mlflow_url


@pytest.mark.long
@pytest.mark.parametrize("service", READ)
def test_only_the_owner_with_the_password_reads_and_writes(up: tuple[Home, RunningHome], service: str) -> None:
    home, running = up
    server = address(running, service)
    port = server.rpartition(":")[2]
    with httpx.Client(base_url=server, trust_env=False, timeout=60) as client:

        def ask(path: str, body: object, headers: dict[str, str] | None = None, password: str | None = None) -> int:
            auth = credentials(password) if password else None
            return client.post(path, json=body, headers=headers or {}, auth=auth).status_code

        own, search = home_password(home), {"max_results": 1}
        assert ask(READ[service], search, password=own) == 200
        assert ask(READ[service], search, {"Host": f"localhost:{port}"}, own) == 200
        assert ask(READ[service], search, {"Origin": f"http://127.0.0.1:{port}"}, own) == 200
        for path, body in ((READ[service], search), (WRITE[service], BODY[service])):
            assert ask(path, body) == 401
            assert ask(path, body, password="rnnlm:wrong") == 401
            assert ask(path, body, {"Host": "example.org"}, own) in (400, 403)
            for origin in FOREIGN_ORIGINS[service]:
                assert ask(path, body, {"Origin": origin}, own) == 403
        preflight = client.options(
            WRITE[service],
            headers={"Origin": "https://example.org", "Access-Control-Request-Method": "POST"},
        )
        assert "access-control-allow-origin" not in preflight.headers


@pytest.mark.long
def test_all_listen_on_loopback_and_the_worker_answers_only_its_own_runs(up: tuple[Home, RunningHome]) -> None:
    """Prefect's worker has a socket on which its flow runs authenticate, each with a token of its own."""
    home, running = up
    processes = [*find_home_processes(home).services, psutil.Process(running.pid)]
    found = {
        connection.laddr
        for process in processes
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {one.ip for one in found} == {"127.0.0.1"}
    others = {one.port for one in found} - {running.prefect_port, running.mlflow_port}
    assert len(others) <= 1
    for port in others:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(b"0" * 32 + b"\n")
            assert connection.recv(100) == b""  # closed without an answer


@pytest.mark.long
def test_a_run_cannot_choose_its_command_or_environment(up: tuple[Home, RunningHome], tmp_path: Path) -> None:
    """Even with the password: a form of the UI, or a parameter, is not a shell."""
    home, running = up
    query = PrefectQuery(running.prefect_api, home_password(home))
    settle = query.deployments()["settle/settle"]["id"]
    made = tmp_path / "made"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(made)!r}, 'w')")  # Python runs it at its start
    run = query.post(
        f"deployments/{settle}/create_flow_run",
        job_variables={
            "command": f"touch {made}",
            "env": {"PYTHONPATH": str(tmp_path)},
            "env.PYTHONPATH": str(tmp_path),
            "working_dir": str(tmp_path),
        },
    )

    def ended() -> bool:
        [found] = query.post("flow_runs/filter", flow_runs={"id": {"any_": [run["id"]]}})
        return found["state"]["type"] in ("COMPLETED", "FAILED", "CRASHED")

    assert poll_until(ended, 180)
    assert not made.exists()


@pytest.mark.long
def test_no_file_with_a_secret_is_readable_by_others(up: tuple[Home, RunningHome]) -> None:
    home, _ = up
    secret = home_password(home).partition(":")[2].encode()
    holding = [path for path in home.root.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert holding
    assert [path for path in holding if is_readable_by_others(path, home)] == []


def is_readable_by_others(path: Path, home: Home) -> bool:
    """Whether another user can open it: every folder between it and the home lets him through."""
    between = [folder for folder in path.parents if folder.is_relative_to(home.root)]
    return bool(path.stat().st_mode & 0o044) and all(folder.stat().st_mode & 0o011 for folder in between)


@pytest.mark.long
def test_the_commands_know_the_password(up: tuple[Home, RunningHome]) -> None:
    status = subprocess.run([*RNNLM, "status", "--json"], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(status.stdout)["next"]
    environment = subprocess.run([*RNNLM, "env", "--json"], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(environment.stdout)["PREFECT_API_AUTH_STRING"] == home_password(up[0])
