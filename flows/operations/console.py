"""What the console shows: the library's log lines, and a user's mistake in three lines without a traceback."""

import logging
import re

from httpx import TransportError

from rnnlm.errors import RnnlmError

KINDS = (*(kind.__name__ for kind in RnnlmError.__subclasses__()), "ConnectError", "ReadError", "ReadTimeout")
TOLD = re.compile(r"Failed\(.*\b(" + "|".join(KINDS) + r")\b", re.S)
SENDERS = ("prefect.events.clients", "prefect._internal.concurrency")  # complain of every try to reach a server


def shows_something_new(record: logging.LogRecord) -> bool:
    """Logging filter: False for a traceback of, or a final state that repeats, what the command tells by itself.

    That is an error of ours, an interruption, and a Prefect server that does not answer.
    """
    if record.exc_info and isinstance(record.exc_info[1], (RnnlmError, KeyboardInterrupt, TransportError)):
        return False
    return not TOLD.search(record.getMessage())


def quiet_user_errors() -> None:
    """Put the filter on every console handler that Prefect has set up; handlers to the API stay as they are."""
    from prefect.logging.handlers import PrefectConsoleHandler

    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    for logger in (logging.root, *named):
        for handler in logger.handlers:
            if isinstance(handler, PrefectConsoleHandler):
                handler.addFilter(shows_something_new)
    for sender in SENDERS:
        logging.getLogger(sender).setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # else the handler to the API prints every line that it could not send


def show_library_lines() -> None:
    """The library's own log lines reach the console by the root logger's handler, Prefect's."""
    logging.getLogger("rnnlm").setLevel(logging.INFO)
