"""A port that is taken is named with the process that took it."""

import os
import socket

import pytest

from flows.service.ports import check_port
from rnnlm.errors import ConfigError


def test_a_busy_port_names_the_process_that_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            check_port(port, "--port")
    message = str(refused.value)
    assert f"port {port} is not free: process {os.getpid()} listens there (" in message
    assert message.endswith("choose another port with --port")


def test_a_free_port_is_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    check_port(port, "--port")
