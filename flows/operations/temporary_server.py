"""A Prefect server for the time of one command. It ends with the command, however that ends.

Prefect starts one by itself where no server is configured, but in the command's process group: Ctrl-C on a terminal
ends it before the flow could say how it ended, and a killed command leaves it running. This one has a session of its
own, and its standard input is a pipe that the command holds open: at the end of the file it stops.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from rnnlm.child_processes import python_path

STARTUP = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"  # the setting of Prefect's own temporary server
STOP_SECONDS = 10.0
SERVER_SETTINGS = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


@contextlib.contextmanager
def temporary_server() -> Iterator[str]:
    """Start a server on a free port of the loopback and make it Prefect's API for the block. Gives its address."""
    from prefect.context import refresh_global_settings_context

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
        # -P: the caller's working directory is no place to import from
        command = [sys.executable, "-P", "-m", "flows.operations.temporary_server", str(listening.fileno())]
        process = subprocess.Popen(
            command,
            env=os.environ | SERVER_SETTINGS | {"PYTHONPATH": python_path()},
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
    try:
        wait_until_healthy(address, process)
        os.environ["PREFECT_API_URL"] = address
        refresh_global_settings_context()
        try:
            yield address
        finally:
            send_what_waits()
    finally:
        os.environ.pop("PREFECT_API_URL", None)
        refresh_global_settings_context()
        stop(process)


def wait_until_healthy(address: str, process: "subprocess.Popen[bytes]") -> None:
    """RuntimeError where the server ends, or does not answer in time."""
    import httpx

    seconds = float(os.environ.get(STARTUP, "120"))
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{address}/health", timeout=5, trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    happened = f"did not answer within {seconds:.0f} s ({STARTUP})" if process.poll() is None else "ended at once"
    raise RuntimeError(f"Prefect's temporary server {happened}")


def send_what_waits() -> None:
    """Wait until the threads that send log lines and states of tasks have sent them."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=STOP_SECONDS)


def stop(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
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
