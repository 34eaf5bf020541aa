"""The console's output: the library's log lines, and user errors in three lines without a traceback."""

import enum
import logging
import math
import time
from collections.abc import Callable, Iterator

from httpx import TransportError

from rnnlm.display.progress import clear_bars
from rnnlm.display.text_layout import TerminalFormatter
from rnnlm.errors import RnnlmError
from rnnlm.storage.disk_errors import is_full_disk, mentions_full_disk

FINAL_STATE = "Finished in state Failed("  # how Prefect's line about a failed run begins
FULL_DISK = "no space is left on the disk of Prefect's database; free some"
FULL_DISK_SECONDS = 60.0
NOISY_LOGGERS = ("prefect.events.clients", "prefect._internal.concurrency")  # log every failed try to reach a server


def is_news(record: logging.LogRecord) -> bool:
    """Filter the console's log: drop what the command itself reports when the run has failed.

    These are our own errors, interruptions, an unreachable Prefect server, a full disk, and a failed run's last line,
    which repeats its error.
    """
    error = error_of(record)
    if isinstance(error, (RnnlmError, KeyboardInterrupt, TransportError)) or (error and is_full_disk(error)):
        return False
    if record.name.startswith("prefect") and mentions_full_disk(record.getMessage()):
        return False
    return not record.getMessage().startswith(FINAL_STATE)


def error_of(record: logging.LogRecord) -> BaseException | None:
    """Return the exception that is logged, also if shorten() has taken its traceback."""
    return record.exc_info[1] if record.exc_info else getattr(record, "rnnlm_error", None)


def shorten(record: logging.LogRecord) -> bool:
    """Filter a log: an error that the user must fix is logged as its message alone, without a traceback."""
    error = error_of(record)
    if isinstance(error, RnnlmError):
        record.msg, record.args, record.exc_info, record.exc_text = str(error), (), None, None
        record.rnnlm_error = error
    return True


def shorten_own_errors() -> None:
    """Shorten our own errors in the logs of flow and task runs, which the Prefect UI shows."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logger = logging.getLogger(name)
        if shorten not in logger.filters:
            logger.addFilter(shorten)


def full_disk_logged_once() -> Callable[[logging.LogRecord], bool]:
    """Filter the log of a server whose every request fails then: one sentence per minute instead of tracebacks."""
    logged_at = -math.inf

    def log(record: logging.LogRecord) -> bool:
        nonlocal logged_at
        if not record.exc_info or record.exc_info[1] is None or not is_full_disk(record.exc_info[1]):
            return True
        if time.monotonic() < logged_at + FULL_DISK_SECONDS:
            return False
        logged_at = time.monotonic()
        record.msg, record.args, record.exc_info, record.exc_text = FULL_DISK, (), None, None
        return True

    return log


def console_handlers() -> Iterator[logging.Handler]:
    """Yield the handlers of all loggers that write to the console. Those that send to Prefect's API are left out."""
    from prefect.logging.handlers import PrefectConsoleHandler

    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    handlers = {id(handler): handler for logger in (logging.root, *named) for handler in logger.handlers}
    return (handler for handler in handlers.values() if isinstance(handler, PrefectConsoleHandler))


class Detail(enum.Enum):
    """How much a command shows of a flow run."""

    ALL = "all"  # everything that Prefect logs
    STAGES = "stages"  # the library's lines: one per stage, progress and decisions
    WARNINGS = "warnings"

    def shows(self, record: logging.LogRecord) -> bool:
        """Filter a log, and make room for the lines that are let through."""
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
    for handler in console_handlers():
        handler.filters = [is_news, detail.shows]
        line = handler.formatter if detail is Detail.ALL and handler.formatter else logging.Formatter("%(message)s")
        handler.setFormatter(TerminalFormatter(line))
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # otherwise the API handler prints every line that it could not send


def show_library_lines() -> None:
    """Let the library's INFO lines through to the root logger's handler, which is Prefect's."""
    logging.getLogger("rnnlm").setLevel(logging.INFO)
