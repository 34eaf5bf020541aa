"""Prefect's server answers every request, even if its SQLite file is busy. Each request is executed only once."""

import asyncio
import contextlib
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from flows.operations.busy_database import TRIES, AgainIfBusy, busy_in_one_line
from flows.operations.home_servers import RunningHome, credentials, home_password
from flows.operations.prefect_environment import home_defaults, server_variables
from flows.operations.prefect_query import PrefectQuery, wait_for_server
from rnnlm.runtime.login_first import BoundedBody
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


class BusyAtFirst:
    """An application that responds to its first requests with 503, and then with the body. It counts the requests."""

    def __init__(self, busy: int) -> None:
        self.busy, self.bodies = busy, list[bytes]()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        assert "seen" not in scope
        scope["seen"] = True
        message = await receive()
        self.bodies.append(message["body"])
        status = 503 if len(self.bodies) <= self.busy else 201
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})
        if status == 503:
            # After the response 503, Starlette raises the exception again for the server's log.
            raise sqlite3.OperationalError("database is locked")


@pytest.mark.parametrize(("busy", "status", "requests"), [(0, 201, 1), (3, 201, 4), (TRIES, 503, TRIES)])
def test_a_request_is_tried_again_while_the_database_is_busy(
    monkeypatch: pytest.MonkeyPatch, busy: int, status: int, requests: int
) -> None:
    monkeypatch.setattr("flows.operations.busy_database.LONGEST_PAUSE_SECONDS", 0.01)
    app = BusyAtFirst(busy)
    sent: list[Message] = []
    parts: list[Message] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"c"},
    ]

    async def receive() -> "Message":
        return parts.pop(0)

    async def send(message: "Message") -> None:
        sent.append(message)

    with contextlib.suppress(sqlite3.OperationalError):
        asyncio.run(BoundedBody(AgainIfBusy(app), 10, 5.0)({"type": "http", "path": "/"}, receive, send))
    assert app.bodies == [b"abc"] * requests
    assert [(message.get("status"), message.get("body")) for message in sent] == [(status, None), (None, b"abc")]


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("database is locked"), sqlite3.OperationalError("no table")]
)
def test_only_a_busy_database_is_logged_in_one_line(error: Exception) -> None:
    arguments = ("prefect", logging.ERROR, "file", 1, "Heartbeat of %s failed\nat length", ("worker",))
    record = logging.LogRecord(*arguments, (type(error), error, None))
    assert busy_in_one_line(record)
    if "locked" in str(error):
        assert record.getMessage() == "Heartbeat of worker failed: the database was busy, so this is tried again"
    assert (record.exc_info is None) == ("locked" in str(error))


@pytest.fixture
def query(home: Home) -> Iterator[PrefectQuery]:
    """Start a Prefect server with the settings of `rnnlm up`, and yield a query object for it."""
    home.make(home.prefect)
    running = RunningHome(1, "", free_port(), 1)
    environment = os.environ | home_defaults(home) | server_variables(home, running)
    command = [sys.executable, "-P", "-m", "flows.operations.prefect_server", "--port", str(running.prefect_port)]
    with (home.root / "log").open("w") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as up:
        try:
            wait_for_server(running.prefect_api)
            yield PrefectQuery(running.prefect_api, home_password(home))
        finally:
            up.terminate()


@pytest.mark.slow
def test_eight_quick_runs_of_a_deployment_are_created_once_each(home: Home, query: PrefectQuery) -> None:
    flow = query.post("flows/", name="pipeline")["id"]
    deployment = query.post("deployments/", name="quick", flow_id=flow)["id"]

    def create(number: int) -> int:
        address = f"{query.api}/deployments/{deployment}/create_flow_run"
        login = credentials(home_password(home))
        return httpx.post(address, json={"name": f"quick {number}"}, auth=login, timeout=60).status_code

    for first in (0, 8, 16):
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(create, range(first, first + 8))) == [201] * 8
    names = [run["name"] for run in query.last_runs(deployment, ["SCHEDULED"])]
    assert sorted(names) == sorted(f"quick {number}" for number in range(24))
    assert "Traceback" not in (home.root / "log").read_text()
