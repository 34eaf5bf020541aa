"""What the console shows: the library's log lines, and a user's mistake in three lines without a traceback."""

import logging
import re

from rnnlm.errors import RnnlmError

OURS = re.compile(r"Failed\(.*\b(" + "|".join(kind.__name__ for kind in RnnlmError.__subclasses__()) + r")\b", re.S)


def shows_something_new(record: logging.LogRecord) -> bool:
    """Logging filter: False for a traceback of, or a final state that repeats, an error of ours.

    The command prints the message itself, so the console says it once.
    """
    if record.exc_info and isinstance(record.exc_info[1], RnnlmError):
        return False
    return not OURS.search(record.getMessage())


def quiet_user_errors() -> None:
    """Put the filter on every console handler that Prefect has set up; handlers to the API stay as they are."""
    from prefect.logging.handlers import PrefectConsoleHandler

    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    for logger in (logging.root, *named):
        for handler in logger.handlers:
            if isinstance(handler, PrefectConsoleHandler):
                handler.addFilter(shows_something_new)


def show_library_lines() -> None:
    """The library's own log lines reach the console by the root logger's handler, Prefect's."""
    logging.getLogger("rnnlm").setLevel(logging.INFO)
