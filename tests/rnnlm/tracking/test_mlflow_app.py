"""The MLflow server of deploy/compose.yaml reads no request body before it knows the sender's account."""

import base64
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import pytest
import yaml

from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from tests.tracking_server import answers

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
PASSWORD = "a-password-of-the-team"
SEARCH = "/api/2.0/mlflow/experiments/search"
USERS = "/api/2.0/mlflow/users"
UPLOAD = "/api/2.0/mlflow-artifacts/artifacts/1/model"
PORT_OPTION = "--port=5000"


class TeamServer(NamedTuple):
    process: psutil.Process
    port: int


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamServer]:
    """Start the server with the compose file's command. The server's address, database and storage are replaced."""
    folder, port = tmp_path_factory.mktemp("team-mlflow"), free_port()
    command = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["mlflow"]["command"]
    replaced = {
        "mlflow": [sys.executable, "-m", "mlflow"],
        "--host=0.0.0.0": ["--host=127.0.0.1"],
        PORT_OPTION: [f"--port={port}"],
        "--backend-store-uri=postgresql+psycopg2:///mlflow": [f"--backend-store-uri=sqlite:///{folder}/mlflow.db"],
        "--artifacts-destination=s3://mlflow": [f"--artifacts-destination={folder}/artifacts"],
    }
    assert set(replaced) < set(command)
    settings = (DEPLOY / "mlflow-auth.ini").read_text(encoding="utf-8")
    assert "postgresql+psycopg2:///mlflow" in settings
    ours = settings.replace("postgresql+psycopg2:///mlflow", f"sqlite:///{folder}/accounts.db")
    (folder / "auth.ini").write_text(ours, encoding="utf-8")
    environment = os.environ | {
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "a-key-for-forms",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    environment.pop("MLFLOW_TRACKING_URI", None)
    with (folder / "log").open("wb") as log:
        process = psutil.Popen(
            [part for one in command for part in replaced.get(one, [one])],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        assert poll_until(lambda: answers(f"http://127.0.0.1:{port}/health"), 120), (folder / "log").read_text()
        yield TeamServer(process, port)
    finally:
        for one in [process, *process.children(recursive=True)]:
            one.terminate()
        process.wait(timeout=30)


def basic(login: str | bytes) -> str:
    raw = login if isinstance(login, bytes) else login.encode()
    return f"Basic {base64.b64encode(raw).decode()}"


def send_megabytes(port: int, path: str, headers: dict[str, str], megabytes: int) -> tuple[int, int]:
    """Send a body in parts. Return the status of the response and the number of megabytes that the server read."""
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {megabytes << 20}"]
    lines += [f"{name}: {text}" for name, text in headers.items()]
    taken = 0
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        try:
            for _ in range(megabytes):
                connection.sendall(bytes(1 << 20))
                taken += 1
            answer = connection.recv(4096)
        except OSError:  # The server has closed the connection, possibly after a response.
            return 0, taken
    return int(answer.split()[1]), taken


def status_before_body(port: int, path: str, headers: dict[str, str]) -> int:
    """Return the status of the server's response to the headers of a request whose body is never sent."""
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *(f"{name}: {text}" for name, text in headers.items())]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(4096).split()[1])


@pytest.mark.long
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        basic(""),
        basic("admin"),
        basic(f"admin:{PASSWORD}2"),
        basic(f"nobody:{PASSWORD}"),
        basic(f"admin:{PASSWORD}").replace("Basic", "Bearer"),
        basic(b"admin:\xff\xfe"),
        f"Basic admin:{PASSWORD}",
    ],
)
def test_without_an_account_no_body_is_read(server: TeamServer, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    for path in (SEARCH, f"{USERS}/create", "/health", "/anywhere", UPLOAD):
        for size in ({"Content-Length": "3000000000"}, {"Transfer-Encoding": "chunked"}):
            assert status_before_body(server.port, path, headers | size) == 401


@pytest.mark.long
def test_a_large_body_without_a_password_costs_no_memory(server: TeamServer) -> None:
    processes = [server.process, *server.process.children(recursive=True)]
    before = sum(one.memory_info().rss for one in processes)
    status, taken = send_megabytes(server.port, SEARCH, {}, 400)
    assert status in (0, 401)
    assert taken < 50
    assert sum(one.memory_info().rss for one in processes) < before + (100 << 20)


@pytest.mark.long
def test_an_account_of_mlflow_may_send_bodies_within_a_bound(server: TeamServer) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=60) as client:
        admin, search = ("admin", PASSWORD), {"max_results": 1}
        assert client.post(SEARCH, json=search, auth=admin).status_code == 200
        status, taken = send_megabytes(server.port, SEARCH, {"Authorization": basic(f"admin:{PASSWORD}")}, 400)
        assert status in (0, 413)
        assert 64 <= taken < 120
        reader = {"username": "reader", "password": "pässword-of-a-reader"}
        assert client.post(f"{USERS}/create", json=reader, auth=admin).status_code == 200
        given = reader["username"], reader["password"]
        assert client.post(SEARCH, json=search, auth=httpx.BasicAuth(*given)).status_code == 200
        assert client.get(f"{USERS}/current", auth=httpx.BasicAuth(*given)).status_code == 200
        # MLflow still checks permissions: an account that may only read cannot create another account.
        other = {"username": "other", "password": "password-of-another"}
        assert client.post(f"{USERS}/create", json=other, auth=httpx.BasicAuth(*given)).status_code == 403
        assert client.request("DELETE", f"{USERS}/delete", json={"username": "reader"}, auth=admin).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get(f"{USERS}/list").status_code == 401
