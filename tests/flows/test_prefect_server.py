"""A temporary server is only as long-lived as the block that it is for."""

import os
import socket
import subprocess
import sys

import pytest

from flows.operations import prefect_server
from flows.operations.prefect_server import server_kept_alive
from rnnlm.errors import RnnlmError


@pytest.mark.long
def test_one_that_cannot_start_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(listening: object) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], stdin=subprocess.PIPE)

    monkeypatch.setattr(prefect_server, "start_server_process", start)
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        pytest.raises(RnnlmError, match="ended with code 3"),
        server_kept_alive(listening),
    ):
        pass
    assert "PREFECT_API_URL" not in os.environ
