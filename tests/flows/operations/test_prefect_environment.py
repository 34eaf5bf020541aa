"""The environment of our processes: no file of a home is ever run, and the user's settings win."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from flows.command_line import main
from flows.operations.prefect_environment import set_environment
from rnnlm.storage.home import Home

SET_UP = """
from flows.operations.prefect_environment import set_environment
from rnnlm.storage.home import find_home
set_environment(find_home())
from prefect.logging.configuration import setup_logging
setup_logging()
"""


@pytest.mark.slow
def test_a_logging_yml_in_the_home_is_not_run(home: Home, tmp_path: Path) -> None:
    home.make(home.prefect)
    settings = {"version": 1, "handlers": {"strange": {"()": "os.mkdir", "path": str(tmp_path / "made")}}}
    (home.prefect / "logging.yml").write_text(json.dumps(settings), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    done = subprocess.run([sys.executable, "-c", SET_UP], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "made").exists()


def test_what_the_user_has_set_wins(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    monkeypatch.delenv("HF_HUB_DISABLE_TELEMETRY", raising=False)
    set_environment(home)
    assert os.environ["DO_NOT_TRACK"] == "1"
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_a_proxy_is_not_asked_for_the_servers_of_the_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "example.org")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing listens there
    for _ in range(2):
        set_environment(home)
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert httpx.get(f"http://127.0.0.1:{server.server_port}").status_code == 501  # it answers, to no method
        server.shutdown()


def test_a_shell_reads_what_env_prints(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = f"{home.root} it's"
    monkeypatch.setenv("RNNLM_HOME", strange)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4321/api")
    assert main(["env"]) == 0
    script = f'{capsys.readouterr().out}\necho "$PREFECT_HOME"; echo "$PREFECT_API_URL"'
    shell = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True)
    assert shell.stdout.splitlines() == [f"{Path(strange).resolve()}/prefect", "http://127.0.0.1:4321/api"]
    assert (Path(strange) / "prefect").is_dir()  # `prefect server start` does not make it
