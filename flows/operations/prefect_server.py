"""Prefect servers: check whether one answers, run that of `rnnlm up`, and a temporary one that ends with the command.

Prefect starts a temporary server itself if none is configured, but in the command's process group: Ctrl-C kills the
server before the flow can report its state, and a killed command leaves the server running. Ours has its own session,
and its standard input is a pipe that the command holds open: the server stops at end of file.

Prefect's own command answers whoever reaches it. Ours asks for a password, and refuses other names in the header Host
and other sites' pages.
"""

import contextlib
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flows.operations.home_password import USER, client_variables, credentials, server_variables
from rnnlm.errors import ConfigError, RnnlmError
from rnnlm.runtime.subprocess_environment import python_path
from rnnlm.serving.middleware import LOOPBACK_NAMES, OwnOrigin

if TYPE_CHECKING:
    from starlette.types import ASGIApp

logger = logging.getLogger(__name__)
CONFIGURED_STARTUP_SECONDS = 120.0  # a server takes long to start on a busy machine
TEMPORARY_STARTUP_VARIABLE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"  # Prefect's own setting
SERVER_STOP_SECONDS = 10.0
RESTART_SECONDS = 1.0
SERVER_SETTINGS = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


def health_problem(address: str, *, trust_env: bool = True) -> str:
    """Return why the Prefect API at `address` does not answer, or "" if it does.

    A status below 500 is an answer: a proxy may guard /health. trust_env: use HTTP proxies from the environment.
    """
    import httpx

    try:
        status = httpx.get(f"{address.rstrip('/')}/health", timeout=10, trust_env=trust_env).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    return "" if status < 500 else f"status {status}"


def configured_credentials() -> tuple[str, str] | None:
    """User and password of the Prefect API, from Prefect's own variable; None if it asks for none."""
    password = os.environ.get("PREFECT_API_AUTH_STRING")
    return credentials(password) if password else None


def wait_for_server(address: str) -> None:
    """Return once the configured server answers; it may just have been started. Otherwise ConfigError."""
    deadline = time.monotonic() + CONFIGURED_STARTUP_SECONDS
    while problem := health_problem(address):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"PREFECT_API_URL={address}: no Prefect server answered within {CONFIGURED_STARTUP_SECONDS:.0f} s "
                f'({problem});\nstart one: eval "$(rnnlm env)", prefect server start'
            )
        time.sleep(0.5)


@contextlib.contextmanager
def temporary_server() -> Iterator[str]:
    """Start a server on a free loopback port and make it Prefect's API inside the block. Yields its address."""
    from prefect.context import refresh_global_settings_context

    password = f"{USER}:{secrets.token_urlsafe(24)}"
    with socket.create_server(("127.0.0.1", 0)) as listener, server_kept_alive(listener, password) as address:
        wanted = {"PREFECT_API_URL": address, "PREFECT_UI_ENABLED": "0"}  # so that nobody links to its pages
        wanted |= client_variables(password)
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        refresh_global_settings_context()
        try:
            yield address
        finally:
            drain_prefect_workers(SERVER_STOP_SECONDS)
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value
            refresh_global_settings_context()


@contextlib.contextmanager
def server_kept_alive(listener: socket.socket, password: str) -> Iterator[str]:
    """Run the server's process inside the block and restart it if it dies. Yields its address once it answers.

    Requests wait during a restart: the socket belongs to the command, and the server's state is in its database.
    """
    port = listener.getsockname()[1]
    address = f"http://127.0.0.1:{port}/api"
    environment = os.environ | SERVER_SETTINGS | server_variables(password, port) | {"PYTHONPATH": python_path()}
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
        yield address
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
        env=environment,
        stdin=subprocess.PIPE,
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )


def wait_until_healthy(address: str, process: "subprocess.Popen[bytes]") -> None:
    """Raise RnnlmError if the server ends or does not answer in time."""
    seconds = float(os.environ.get(TEMPORARY_STARTUP_VARIABLE, "120"))
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        if not health_problem(address, trust_env=False):  # waits until the server listens, or times out
            return
        if time.monotonic() > deadline:
            raise RnnlmError(
                f"Prefect's temporary server did not answer within {seconds:.0f} s;\n"
                f"raise {TEMPORARY_STARTUP_VARIABLE} to wait longer"
            )
        time.sleep(0.1)
    raise RnnlmError(
        f"Prefect's temporary server ended with code {process.returncode} while starting; see its output above"
    )


def drain_prefect_workers(seconds: float) -> None:
    """Stop the threads that send log lines and task states, giving them up to `seconds` to send what is queued."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=seconds)


def stop_server_process(process: "subprocess.Popen[bytes]") -> None:
    """Close the server's standard input, which ends it; kill it after SERVER_STOP_SECONDS. Idempotent."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(SERVER_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def server_command(port: int) -> list[str]:
    """The server of `rnnlm up`, with pages and background services."""
    return [sys.executable, "-P", "-m", "flows.operations.prefect_server", "--port", str(port)]


def guarded_app() -> "ASGIApp":
    """Prefect's API and pages for those who ask for them by a name of loopback, and not from another site's page."""
    from prefect.server.api.server import create_app
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from flows.operations.console import console_handlers, full_disk_told_once

    app = OwnOrigin(create_app(final=True))
    full_disk = full_disk_told_once()
    for handler in console_handlers():
        handler.addFilter(full_disk)
    return TrustedHostMiddleware(app, allowed_hosts=list(LOOPBACK_NAMES), www_redirect=False)


def run_server(listener: socket.socket, *, temporary: bool) -> None:
    """Answer requests; a temporary server ends with its standard input. Runs in the server's own process."""
    import uvicorn

    level = "error" if temporary else "warning"
    server = uvicorn.Server(uvicorn.Config(guarded_app, factory=True, log_level=level, lifespan="on"))

    def stop_at_end_of_input() -> None:
        while os.read(0, 1024):
            pass
        server.should_exit = True
        time.sleep(SERVER_STOP_SECONDS)
        os._exit(1)

    if temporary:
        threading.Thread(target=stop_at_end_of_input, daemon=True).start()
    server.run(sockets=[listener])


if __name__ == "__main__":
    option, number = sys.argv[1], int(sys.argv[2])
    if option == "--descriptor":
        run_server(socket.socket(fileno=number), temporary=True)
    else:
        run_server(socket.create_server(("127.0.0.1", number)), temporary=False)
