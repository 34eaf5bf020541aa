"""Configure the console's output: it shows rnnlm's log lines, and user errors in a few lines without a traceback."""

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

FINAL_STATE = "Finished in state Failed("  # The beginning of Prefect's log line about a failed run.
FULL_DISK = "no space is left on the disk of Prefect's database; free some"
FULL_DISK_SECONDS = 60.0
# Loggers that report each failed attempt to reach a server.
NOISY_LOGGERS = ("prefect.events.clients", "prefect._internal.concurrency")


def is_news(record: logging.LogRecord) -> bool:
    """Return False for log records that repeat the command's own report of a failed run.

    These are rnnlm's own errors, interruptions, an unreachable Prefect server, a full disk, and the last line of a
    failed run, which repeats its error.
    """
    error = error_of(record)
    if isinstance(error, (RnnlmError, KeyboardInterrupt, TransportError)) or (error and is_full_disk(error)):
        return False
    if record.name.startswith("prefect") and mentions_full_disk(record.getMessage()):
        return False
    return not record.getMessage().startswith(FINAL_STATE)


def error_of(record: logging.LogRecord) -> BaseException | None:
    """Return the exception of a log record, even if shorten() has removed its traceback."""
    return record.exc_info[1] if record.exc_info else getattr(record, "rnnlm_error", None)


def shorten(record: logging.LogRecord) -> bool:
    """Reduce an error that the user must fix to its message, without a traceback.

    The log filter accepts all records.
    """
    error = error_of(record)
    if isinstance(error, RnnlmError):
        record.msg, record.args, record.exc_info, record.exc_text = str(error), (), None, None
        record.rnnlm_error = error
    return True


def shorten_own_errors() -> None:
    """Shorten rnnlm's own errors in the logs of flow and task runs, which the Prefect UI shows."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logger = logging.getLogger(name)
        if shorten not in logger.filters:
            logger.addFilter(shorten)


def full_disk_logged_once() -> Callable[[logging.LogRecord], bool]:
    """Return a log filter for a server on a full disk, where every request fails.

    It logs one sentence per minute instead of a traceback per request.
    """
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
    """Yield the handlers of all loggers that write to the console. Handlers that send to Prefect's API are left out."""
    from prefect.logging.handlers import PrefectConsoleHandler

    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    handlers = {id(handler): handler for logger in (logging.root, *named) for handler in logger.handlers}
    return (handler for handler in handlers.values() if isinstance(handler, PrefectConsoleHandler))


class Detail(enum.Enum):
    """The amount of detail that a command shows of a flow run."""

    ALL = "all"  # Show everything that Prefect logs.
    STAGES = "stages"  # Show only rnnlm's own log lines, which report the stages, their progress and decisions.
    WARNINGS = "warnings"

    def shows(self, record: logging.LogRecord) -> bool:
        """Return True if the record is shown, after removing progress bars from the terminal.

        The method is a log filter.
        """
        shown = self.includes(record)
        if shown:
            clear_bars()
        return shown

    def includes(self, record: logging.LogRecord) -> bool:
        if self is Detail.ALL or record.levelno >= logging.WARNING:
            return True
        return self is Detail.STAGES and record.name.startswith("rnnlm")


def set_up_console(detail: Detail) -> None:
    """Set which log records Prefect's console handlers show. Handlers that send to the API are not changed."""
    for handler in console_handlers():
        handler.filters = [is_news, detail.shows]
        line = handler.formatter if detail is Detail.ALL and handler.formatter else logging.Formatter("%(message)s")
        handler.setFormatter(TerminalFormatter(line))
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # If log lines cannot be sent to Prefect's API, no error is printed.
    logging.raiseExceptions = False


def show_library_lines() -> None:
    """Pass rnnlm's INFO lines to the root logger's handler, which Prefect has installed."""
    logging.getLogger("rnnlm").setLevel(logging.INFO)
