"""A temporary Prefect server that ends together with the command that needs it.

If no server is configured, Prefect itself would start a temporary one, but in the command's process group. Ctrl-C would
then kill the server before the flow can report its state, and a killed command would leave the server running. The
server of this module has a separate session. Its standard input is a pipe that the command keeps open, and it stops at
the end of this input.
"""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

from flows.operations.home_servers import new_password, password_variables
from flows.operations.prefect_environment import away_from_project_files, prefect_package
from flows.operations.prefect_query import health_problem
from rnnlm.errors import RnnlmError
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.subprocess_environment import python_path

logger = logging.getLogger(__name__)
# Prefect's setting for its own temporary server, which also applies to rnnlm's temporary server.
STARTUP_VARIABLE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
SERVER_STOP_SECONDS = 10.0
RESTART_SECONDS = 1.0
SERVER_SETTINGS = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


@contextlib.contextmanager
def temporary_server(meanwhile: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Start a server on a free loopback port, use it as Prefect's API inside the block, and yield its address.

    `meanwhile` is called while the server starts, which takes seconds.
    """
    from prefect.context import refresh_global_settings_context

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # The UI is disabled, so that no links to it are printed.
        variables = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_UI_ENABLED": "0"}
        variables |= password_variables(new_password(), port)
        environment = os.environ | SERVER_SETTINGS | variables
        with server_kept_alive(listener, variables["PREFECT_API_URL"], environment, meanwhile):
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
def server_kept_alive(
    listener: socket.socket, address: str, environment: dict[str, str], meanwhile: Callable[[], object]
) -> Iterator[None]:
    """Run the server's process inside the block, and restart it if it dies. The block begins when the server responds.

    During a restart, requests wait, because the socket belongs to the command. The server's state is in its database.
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
        meanwhile()
        wait_until_healthy(address, process)
        watcher.start()
        yield
    finally:
        stopping.set()
        stop_server_process(process)
        if watcher.is_alive():
            watcher.join(SERVER_STOP_SECONDS)
            # The process is stopped again, because the watcher may just have started a new one.
            stop_server_process(process)


def start_server_process(listener: socket.socket, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    # With -P, nothing is imported from the caller's working directory.
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
    """Wait until the server responds. Raise RnnlmError if it ends or does not respond in time."""
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
    """End the server by closing its standard input. Kill it if it is still running after SERVER_STOP_SECONDS.

    The function may be called again for a server that has ended.
    """
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(SERVER_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def drain_prefect_workers(seconds: float) -> None:
    """Stop Prefect's threads that send log lines and task states. Each gets at most `seconds` to send its queue."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=seconds)
