"""Every server of `rnnlm up` refuses unknown Host names, pages of other sites, and requests without the password."""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from flows.operations.home_servers import RunningHome, credentials, home_password, read_running
from flows.operations.prefect_query import PrefectQuery
from flows.service.home_processes import find_home_processes
from flows.service.supervisor import LONGEST_TEMPORARY_FOLDER, temporary_folder
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from tests.conftest import home_in

RNNLM = [sys.executable, "-m", "flows.command_line"]
READ = {"prefect": "/api/flow_runs/filter", "mlflow": "/api/2.0/mlflow/experiments/search"}
WRITE = {"prefect": "/api/variables/", "mlflow": "/api/2.0/mlflow/registered-models/create"}
FOREIGN_ORIGINS = {
    "prefect": ("https://example.org", "http://example.org:4200", "http://127.0.0.1:1", "null"),
    # The list contains no loopback address, because MLflow accepts pages of every loopback port.
    "mlflow": ("https://example.org", "http://example.org:5000", "null"),
}
BODY = {"prefect": {"name": "a", "value": 1}, "mlflow": {"name": "a"}}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, RunningHome]]:
    """Start the servers of an rnnlm home with the default umask of most systems."""
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
@pytest.mark.parametrize("service", READ)
def test_no_body_is_read_before_the_password_and_none_without_a_bound(
    up: tuple[Home, RunningHome], service: str
) -> None:
    home, running = up
    server, port = address(running, service), int(address(running, service).rpartition(":")[2])
    login = base64.b64encode(home_password(home).encode()).decode()
    announced = {"Content-Length": "3000000000"}, {"Transfer-Encoding": "chunked"}
    for path in (READ[service], WRITE[service], "/health", "/api/health", "/anywhere"):
        for size in announced:
            for wrong in ({}, {"Authorization": "Basic cm5ubG06d3Jvbmc="}, {"Authorization": f"Bearer {login}"}):
                assert answer_to_headers(port, "POST", path, {**size, **wrong}) == 401
    with httpx.Client(base_url=server, trust_env=False, timeout=60) as client:
        for method in ("GET", "HEAD"):  # MLflow and Prefect handle these methods without reading a body.
            assert client.request(method, READ[service]).status_code in (401, 405)
        assert client.request("GET", "/health" if service == "mlflow" else "/api/health").status_code == 200

        def endless() -> Iterator[bytes]:
            for _ in range(200):
                yield bytes(1 << 20)

        before = resident_bytes(home)
        login_of_home = credentials(home_password(home))
        with client.stream("POST", READ[service], content=endless(), auth=login_of_home) as answer:
            assert answer.status_code == 413
        assert resident_bytes(home) < before + (300 << 20)


def answer_to_headers(port: int, method: str, path: str, headers: dict[str, str]) -> int:
    """Return the status of a server's response to the headers of a request, before the body is sent."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(4096).split()[1])


def resident_bytes(home: Home) -> int:
    return sum(process.memory_info().rss for process in find_home_processes(home).services)


@pytest.mark.long
def test_all_listen_on_loopback_and_the_worker_answers_only_its_own_runs(up: tuple[Home, RunningHome]) -> None:
    """All sockets listen on loopback only, and the worker's socket refuses requests without a flow run's token."""
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
            assert connection.recv(100) == b""  # The connection is closed without an answer.


@pytest.mark.long
def test_a_run_cannot_choose_its_command_or_environment(up: tuple[Home, RunningHome], tmp_path: Path) -> None:
    """A run cannot choose its command or environment, even with the server's password."""
    home, running = up
    query = PrefectQuery(running.prefect_api, home_password(home))
    settle = query.deployments()["settle/settle"]["id"]
    made = tmp_path / "made"
    # Python would run this file at its start if the run could choose its environment.
    (tmp_path / "sitecustomize.py").write_text(f"open({str(made)!r}, 'w')")
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
    """Return True if another user can open `path`, which requires access to each folder from the home to it."""
    between = [folder for folder in path.parents if folder.is_relative_to(home.root)]
    return bool(path.stat().st_mode & 0o044) and all(folder.stat().st_mode & 0o011 for folder in between)


@pytest.mark.long
def test_the_commands_know_the_password(up: tuple[Home, RunningHome]) -> None:
    status = subprocess.run([*RNNLM, "status", "--json"], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(status.stdout)["next"]
    environment = subprocess.run([*RNNLM, "env", "--json"], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(environment.stdout)["PREFECT_API_AUTH_STRING"] == home_password(up[0])


@pytest.mark.long
def test_temporary_files_of_the_worker_are_private(up: tuple[Home, RunningHome]) -> None:
    """The worker's temporary files are in a private folder.

    Prefect's worker creates a folder of a fixed name there. In a shared folder, another user could create it first.
    """
    home, _ = up
    services = [process.environ() for process in find_home_processes(home).services]
    (worker,) = {Path(one["TMPDIR"]) for one in services if one["RNNLM_SERVICE"] == "worker"}
    assert worker.stat().st_mode & 0o777 == 0o700
    assert worker.is_relative_to(home.root) or worker.name.startswith("rnnlm-worker-")
    assert poll_until((worker / "runner_storage").exists, 60)


def test_a_long_path_of_a_home_leaves_room_for_sockets(tmp_path: Path) -> None:
    near, far = Home(Path(tempfile.mkdtemp(dir="/tmp"))), Home(tmp_path / ("long" * 20))
    assert temporary_folder(near) == str(near.root / "tmp" / "worker")
    (near.temporary / "worker" / "left").mkdir()
    # The restarted server has removed the files of the killed worker.
    assert not list(Path(temporary_folder(near)).iterdir())
    first, second = Path(temporary_folder(far)), Path(temporary_folder(far))
    assert first != second
    for folder in (first, second, near.temporary / "worker"):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(os.fsencode(folder)) <= LONGEST_TEMPORARY_FOLDER
        shutil.rmtree(folder)
    shutil.rmtree(near.root)
