"""Links lead to this rnnlm home's MLflow server. Links to the server of another home are left out."""

import base64
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flows.operations.home_servers import LOCK, RunningHome, home_password, write_running
from flows.service.supervisor import answers
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.tracking.mlflow_store import embedded_uri, reaching_mlflow
from tasks.evaluation import log_results
from tasks.operations.mlflow_pages import server_of_links
from tests.conftest import copy_store


@contextmanager
def mlflow_pages(home: Home) -> Iterator[int]:
    """Run `mlflow server` without a login on the rnnlm home's store, and yield the server's port."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with subprocess.Popen([*command, "--backend-store-uri", embedded_uri(home)], stderr=subprocess.DEVNULL) as process:
        try:
            assert poll_until(lambda: answers(f"http://127.0.0.1:{port}"), 120, every_seconds=0.25)
            yield port
        finally:
            process.terminate()


@pytest.mark.slow
def test_only_this_homes_server_is_linked(
    tracked_home: Home,
    tmp_path: Path,
    mlflow_template: Path,
    monkeypatch: pytest.MonkeyPatch,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    with reaching_mlflow(tracked_home) as client:
        identity = client.create_run("0").info.run_id
    run = toy_run.model_copy(update={"mlflow_run_id": identity})
    other = Home(tmp_path / "other")
    copy_store(other, mlflow_template)
    for home, expected in ((other, "another"), (tracked_home, "ours")):
        with mlflow_pages(home) as port:
            monkeypatch.setenv("MLFLOW_PORT", str(port))
            assert server_of_links(tracked_home, identity) == expected
            logged = log_results.fn(run, toy_evaluation, toy_samples)
            assert (logged.run_url is None) == (expected == "another")
            assert (logged.run_list_url is None) == (expected == "another")
    monkeypatch.setenv("MLFLOW_PORT", str(free_port()))
    assert server_of_links(tracked_home, identity) == "none"


class Guarded(BaseHTTPRequestHandler):
    """A server that requires a login and claims to have every run. It stores the requests that it receives."""

    password: str
    sent: list[str | None]

    def do_GET(self) -> None:
        self.sent.append(self.headers["Authorization"])
        expected = f"Basic {base64.b64encode(self.password.encode()).decode()}"
        self.send_response(200 if self.headers["Authorization"] == expected else 401)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def guarded_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize(
    ("is_up", "our_password", "expected"), [(True, True, "ours"), (True, False, "another"), (False, True, "another")]
)
def test_the_password_goes_to_the_port_of_this_homes_up_only(
    home: Home, guarded_port: int, monkeypatch: pytest.MonkeyPatch, is_up: bool, our_password: bool, expected: str
) -> None:
    monkeypatch.setattr(Guarded, "sent", [], raising=False)
    password = home_password(home) if our_password else "rnnlm:of another home"
    home_password(home)
    monkeypatch.setattr(Guarded, "password", password, raising=False)
    monkeypatch.setenv("MLFLOW_PORT", str(guarded_port))
    write_running(home, RunningHome(1, "2026-11-28T00:00:00+00:00", 1, guarded_port))
    if is_up:
        with home.lock(LOCK):
            found = in_another_thread(home)
    else:
        found = in_another_thread(home)
    assert found == expected
    assert [one is not None for one in Guarded.sent] == [is_up]


def in_another_thread(home: Home) -> str:
    """Call server_of_links() in another thread, because this thread could acquire its own lock again."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(server_of_links(home, "a")))
    thread.start()
    thread.join()
    return found[0]
