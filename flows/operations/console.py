"""What the console shows: the library's log lines, and user errors in three lines without a traceback."""

import enum
import logging
import re

from httpx import TransportError

from rnnlm.errors import RnnlmError
from rnnlm.progress import clear_bars

UNREACHABLE = {"ConnectError", "ReadError", "ReadTimeout"}  # a Prefect server that is away
FAILED_STATE = re.compile(r"Failed\(.*?\b(\w+Error|ReadTimeout)\b", re.S)
NOISY_LOGGERS = ("prefect.events.clients", "prefect._internal.concurrency")  # log every failed try to reach a server


def is_news(record: logging.LogRecord) -> bool:
    """Logging filter: drop tracebacks and final states of errors that the command itself reports.

    These are our own errors, interruptions and an unreachable Prefect server.
    """
    if record.exc_info and isinstance(record.exc_info[1], (RnnlmError, KeyboardInterrupt, TransportError)):
        return False
    failed = FAILED_STATE.search(record.getMessage())
    return failed is None or failed[1] not in UNREACHABLE | names_of_errors(RnnlmError)


def names_of_errors(kind: type[Exception]) -> set[str]:
    """Of an error and of all that are derived from it."""
    return {kind.__name__}.union(*map(names_of_errors, kind.__subclasses__()))


class Detail(enum.Enum):
    """How much a command shows of a flow run."""

    ALL = "all"  # everything that Prefect logs
    STAGES = "stages"  # the library's lines: one per stage, progress and decisions
    WARNINGS = "warnings"

    def shows(self, record: logging.LogRecord) -> bool:
        """Logging filter; it also makes room for the lines that it lets through."""
        shown = self.includes(record)
        if shown:
            clear_bars()
        return shown

    def includes(self, record: logging.LogRecord) -> bool:
        if self is Detail.ALL or record.levelno >= logging.WARNING:
            return True
        return self is Detail.STAGES and record.name.startswith("rnnlm")


def set_up_console(detail: Detail) -> None:
    """Set what Prefect's console handlers show; its handlers that send to the API stay as they are."""
    from prefect.logging.handlers import PrefectConsoleHandler

    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    for logger in (logging.root, *named):
        for handler in logger.handlers:
            if isinstance(handler, PrefectConsoleHandler):
                handler.filters = [is_news, detail.shows]
                if detail is not Detail.ALL:
                    handler.setFormatter(logging.Formatter("%(message)s"))
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # otherwise the API handler prints every line that it could not send


def show_library_lines() -> None:
    """Let the library's INFO lines through to the root logger's handler, which is Prefect's."""
    logging.getLogger("rnnlm").setLevel(logging.INFO)
