"""Run Prefect's server in a separate process, either for `rnnlm up` or as the temporary server of a command.

Prefect's own command starts a server that responds to everyone who can reach it. This server requires a password, which
is set by environment variables. It refuses requests with a foreign Host header or from pages of other sites.
"""

import logging
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from rnnlm.runtime.accept_errors import shorten_accept_errors
from rnnlm.runtime.garbage_collection import collect_as_usual, collect_rarely
from rnnlm.runtime.login_first import LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS, BoundedBody, LoginFirst, only
from rnnlm.runtime.own_origin import LOOPBACK_NAMES, OwnOrigin

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LINGER_SECONDS = 10.0  # The number of seconds for which running requests may continue after the end of standard input.


def guarded_app() -> "ASGIApp":
    """Return an ASGI app with Prefect's API and pages. It refuses foreign host names and pages of other sites."""
    from prefect.server.api.server import create_app
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from flows.operations.busy_database import AgainIfBusy, busy_in_one_line
    from flows.operations.console import console_handlers, full_disk_logged_once

    bounded = BoundedBody(AgainIfBusy(create_app(final=True)), LARGEST_BODY_BYTES, LONGEST_BODY_SECONDS)
    app = OwnOrigin(LoginFirst(bounded, only(os.environ["PREFECT_SERVER_API_AUTH_STRING"])))
    shorten_accept_errors()
    full_disk = full_disk_logged_once()
    for handler in console_handlers():
        handler.addFilter(full_disk)
        handler.addFilter(busy_in_one_line)
    collect_as_usual()
    return TrustedHostMiddleware(app, allowed_hosts=list(LOOPBACK_NAMES), www_redirect=False)


def run_server(listener: socket.socket, *, temporary: bool) -> None:
    """Serve requests on `listener` until the process is stopped.

    A temporary server also stops when its standard input ends.
    """
    import uvicorn

    level = "error" if temporary else "warning"
    server = uvicorn.Server(uvicorn.Config(guarded_app, factory=True, log_level=level, lifespan="on"))

    def stop_at_end_of_input() -> None:
        while os.read(0, 1024):
            pass
        server.should_exit = True
        time.sleep(LINGER_SECONDS)
        os._exit(1)

    if temporary:
        threading.Thread(target=stop_at_end_of_input, daemon=True).start()
    server.run(sockets=[listener])
    # The services have stopped and the database is closed. Python's teardown of all modules, for which a command would
    # wait, takes longer than a second.
    logging.shutdown()
    os._exit(0 if server.started else 1)


if __name__ == "__main__":
    collect_rarely()
    option, number = sys.argv[1], int(sys.argv[2])
    if option == "--descriptor":
        run_server(socket.socket(fileno=number), temporary=True)
    else:
        run_server(socket.create_server(("127.0.0.1", number)), temporary=False)
