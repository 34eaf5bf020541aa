"""A temporary Prefect server runs only inside its `with` block."""

import contextlib
import os
import sqlite3
import subprocess
import sys

import pytest

from flows.operations import temporary_server
from rnnlm.errors import RnnlmError
from rnnlm.storage.home import Home


@pytest.mark.long
def test_a_server_that_cannot_start_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(listening: object, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], stdin=subprocess.PIPE)

    monkeypatch.setattr(temporary_server, "start_server_process", start)
    with pytest.raises(RnnlmError, match="ended with code 3"), temporary_server.temporary_server():
        pass
    assert "PREFECT_API_URL" not in os.environ


@pytest.mark.long
def test_a_run_with_the_variables_of_env_needs_no_server(tracked_home: Home) -> None:
    """A run uses a temporary server if the variables of `rnnlm env` are set but no server runs, as in the tutorial."""
    script = f'eval "$({sys.executable} -m flows.command_line env)"; {sys.executable} -m flows.command_line prepare '
    script += "--corpus zen --set tokenizer.kind=word"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "so the run uses a temporary server" in done.stderr


@pytest.mark.long
def test_what_is_sent_last_is_stored_when_the_server_has_ended(tracked_home: Home) -> None:
    """The server skips Python's teardown, but still stops its services and closes the database."""
    code = """
from flows.operations.prefect_environment import set_environment
from rnnlm.storage.home import find_home

set_environment(find_home())
from flows.operations.flow_runner import home_server

with home_server(find_home()):
    from prefect.events import emit_event
    emit_event("rnnlm.last", resource={"prefect.resource.id": "rnnlm.test"})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    folder = tracked_home.root / "prefect"
    assert not list(folder.glob("prefect.db-*"))
    with contextlib.closing(sqlite3.connect(folder / "prefect.db")) as connection:
        assert connection.execute("select event from events where event = 'rnnlm.last'").fetchall() == [("rnnlm.last",)]
