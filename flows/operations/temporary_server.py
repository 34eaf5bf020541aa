"""A temporary Prefect server that ends with the command that needs it.

Prefect starts a temporary server itself if none is configured, but in the command's process group: Ctrl-C kills the
server before the flow can report its state, and a killed command leaves the server running. Ours has its own session,
and its standard input is a pipe that the command holds open: the server stops at end of file.
"""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

from flows.operations.home_servers import new_password, password_variables
from flows.operations.prefect_environment import away_from_project_files, prefect_package
from flows.operations.prefect_query import health_problem
from rnnlm.errors import RnnlmError
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.subprocess_environment import python_path

logger = logging.getLogger(__name__)
STARTUP_VARIABLE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"  # Prefect's own setting
SERVER_STOP_SECONDS = 10.0
RESTART_SECONDS = 1.0
SERVER_SETTINGS = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


@contextlib.contextmanager
def temporary_server() -> Iterator[str]:
    """Start a server on a free loopback port and make it Prefect's API inside the block. Yields its address."""
    from prefect.context import refresh_global_settings_context

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        variables = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_UI_ENABLED": "0"}  # no links to it
        variables |= password_variables(new_password(), port)
        with server_kept_alive(listener, variables["PREFECT_API_URL"], os.environ | SERVER_SETTINGS | variables):
            before = {name: os.environ[name] for name in variables if name in os.environ}
            os.environ.update(variables)
            with away_from_project_files():
                refresh_global_settings_context()
            try:
                yield variables["PREFECT_API_URL"]
            finally:
                drain_prefect_workers(SERVER_STOP_SECONDS)
                for name in variables:
                    del os.environ[name]
                os.environ.update(before)
                with away_from_project_files():
                    refresh_global_settings_context()


@contextlib.contextmanager
def server_kept_alive(listener: socket.socket, address: str, environment: dict[str, str]) -> Iterator[None]:
    """Run the server's process inside the block, which begins once it answers, and restart it if it dies.

    Requests wait during a restart: the socket belongs to the command, and the server's state is in its database.
    """
    stopping = threading.Event()
    process = start_server_process(listener, environment)

    def watch() -> None:
        nonlocal process
        while True:
            code = process.wait()
            if stopping.wait(RESTART_SECONDS):
                return
            logger.warning("Prefect's temporary server ended with code %d; restarting it", code)
            process = start_server_process(listener, environment)

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        wait_until_healthy(address, process)
        watcher.start()
        yield
    finally:
        stopping.set()
        stop_server_process(process)
        if watcher.is_alive():
            watcher.join(SERVER_STOP_SECONDS)
            stop_server_process(process)  # in case the watcher had just restarted it


def start_server_process(listener: socket.socket, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    # -P: do not import from the caller's working directory
    command = [sys.executable, "-P", "-m", "flows.operations.prefect_server", "--descriptor", str(listener.fileno())]
    return subprocess.Popen(
        command,
        cwd=prefect_package(),
        env=environment | {"PYTHONPATH": python_path()},
        stdin=subprocess.PIPE,
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )


def wait_until_healthy(address: str, process: "subprocess.Popen[bytes]") -> None:
    """Raise RnnlmError if the server ends or does not answer in time."""
    seconds = float(os.environ.get(STARTUP_VARIABLE, "120"))

    def answers_or_has_ended() -> bool:
        return process.poll() is not None or not health_problem(address, trust_env=False)

    answered = poll_until(answers_or_has_ended, seconds, 0.1)
    if process.returncode is not None:
        raise RnnlmError(
            f"Prefect's temporary server ended with code {process.returncode} while starting; see its output above"
        )
    if not answered:
        raise RnnlmError(
            f"Prefect's temporary server did not answer within {seconds:.0f} s;\n"
            f"raise {STARTUP_VARIABLE} to wait longer"
        )


def stop_server_process(process: "subprocess.Popen[bytes]") -> None:
    """Close the server's standard input, which ends it; kill it after SERVER_STOP_SECONDS. Idempotent."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(SERVER_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def drain_prefect_workers(seconds: float) -> None:
    """Stop the threads that send log lines and task states, giving them up to `seconds` to send what is queued."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=seconds)
