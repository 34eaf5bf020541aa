"""A port that is taken is named with the process that took it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.service.home_processes import check_port


@pytest.mark.parametrize(("option", "detach"), [("--port", ()), ("--mlflow-port", ("--detach",))])
def test_up_on_a_busy_port_names_its_process_before_anything_is_started(
    tmp_path: Path, option: str, detach: tuple[str, ...]
) -> None:
    # The process has a command of several lines, which the message shows in one.
    script = "import socket, sys\nserver = socket.create_server(('127.0.0.1', 0))\n"
    script += "print(server.getsockname()[1], flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "flows.command_line", "up", *detach, option, port],
            env=os.environ | {"RNNLM_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )
        seconds = time.monotonic() - begun
        server.kill()
    assert done.returncode != 0
    *_, what, advice = done.stderr.splitlines()
    assert f"port {port} is not free: process {server.pid} listens there (" in what
    assert advice == f"stop it, or choose another port with {option}"
    assert not (tmp_path / "home" / "prefect" / "prefect.db").exists()
    assert seconds < 15  # 1 s on a quiet machine; the servers take longer to start


def test_a_free_port_is_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    check_port(port, "--port")
