"""A Prefect server for the time of one command. It ends with the command, however that ends.

Prefect starts one by itself where no server is configured, but in the command's process group: Ctrl-C on a terminal
ends it before the flow could say how it ended, and a killed command leaves it running. This one has a session of its
own, and its standard input is a pipe that the command holds open: at the end of the file it stops.
"""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from rnnlm.errors import RnnlmError
from rnnlm.subprocess_environment import python_path

logger = logging.getLogger(__name__)
STARTUP = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"  # the setting of Prefect's own temporary server
STOP_SECONDS = 10.0
RESTART_SECONDS = 1.0
SERVER_SETTINGS = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


@contextlib.contextmanager
def temporary_server() -> Iterator[str]:
    """Start a server on a free port of the loopback and make it Prefect's API for the block. Gives its address."""
    from prefect.context import refresh_global_settings_context

    with socket.create_server(("127.0.0.1", 0)) as listening, kept_running(listening) as address:
        before = os.environ.get("PREFECT_API_URL")
        os.environ["PREFECT_API_URL"] = address
        refresh_global_settings_context()
        try:
            yield address
        finally:
            send_what_waits(STOP_SECONDS)
            del os.environ["PREFECT_API_URL"]
            if before is not None:
                os.environ["PREFECT_API_URL"] = before
            refresh_global_settings_context()


@contextlib.contextmanager
def kept_running(listening: socket.socket) -> Iterator[str]:
    """Run the server's process for the block; gives its address once it answers.

    Where it dies later, for want of memory, say, it is started again. Requests wait meanwhile: the socket is ours, and
    what the server knew lies in its database.
    """
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    stopping = threading.Event()
    process = start(listening)

    def watch() -> None:
        nonlocal process
        while True:
            code = process.wait()
            if stopping.wait(RESTART_SECONDS):
                return
            logger.warning("Prefect's temporary server ended with code %d; it is started again", code)
            process = start(listening)

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        wait_until_healthy(address, process)
        watcher.start()
        yield address
    finally:
        stopping.set()
        stop(process)
        if watcher.is_alive():
            watcher.join(STOP_SECONDS)
            stop(process)  # in case it had just been started again


def start(listening: socket.socket) -> "subprocess.Popen[bytes]":
    # -P: the caller's working directory is no place to import from
    command = [sys.executable, "-P", "-m", "flows.operations.temporary_server", str(listening.fileno())]
    return subprocess.Popen(
        command,
        env=os.environ | SERVER_SETTINGS | {"PYTHONPATH": python_path()},
        stdin=subprocess.PIPE,
        pass_fds=[listening.fileno()],
        start_new_session=True,
    )


def wait_until_healthy(address: str, process: "subprocess.Popen[bytes]") -> None:
    """RnnlmError where the server ends, or does not answer in time."""
    import httpx

    seconds = float(os.environ.get(STARTUP, "120"))
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):  # a request waits until the server listens, or times out
            if httpx.get(f"{address}/health", timeout=5, trust_env=False).status_code == 200:
                return
        if time.monotonic() > deadline:
            raise RnnlmError(f"Prefect's temporary server did not answer within {seconds:.0f} s; {STARTUP} says so")
        time.sleep(0.1)
    raise RnnlmError(f"Prefect's temporary server ended with code {process.returncode} as it started; see above why")


def send_what_waits(seconds: float) -> None:
    """Wait until the threads that send log lines and states of tasks have sent them, or for so long; they end."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=seconds)


def stop(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()  # idempotent
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve(listening: socket.socket) -> None:
    """The server's own process: answer until standard input ends."""
    import uvicorn
    from prefect.server.api.server import create_app

    server = uvicorn.Server(uvicorn.Config(create_app, factory=True, log_level="error", lifespan="on"))

    def end_with_owner() -> None:
        while os.read(0, 1024):
            pass
        server.should_exit = True
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=end_with_owner, daemon=True).start()
    server.run(sockets=[listening])


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
