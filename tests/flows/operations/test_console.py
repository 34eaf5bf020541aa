"""The console shows no log records of rnnlm's own errors, because the command itself reports these errors."""

import errno
import logging
import sqlite3
import sys

import pytest

from flows.operations.console import FULL_DISK, full_disk_logged_once, is_news, shorten
from rnnlm.corpora.table_cells import TableError
from rnnlm.errors import CorpusError


def record(message: str, error: Exception | None = None) -> logging.LogRecord:
    try:
        if error is not None:
            raise error
        caught = None
    except Exception:
        caught = sys.exc_info()
    return logging.LogRecord("prefect.flow_runs", logging.ERROR, "", 1, message, (), caught)


@pytest.mark.parametrize("error", [CorpusError("text"), TableError("text")])
def test_our_own_errors_are_one_sentence_in_the_log(error: Exception) -> None:
    logged = record("Encountered exception during execution", error)
    assert not is_news(logged)
    assert shorten(logged)
    assert logging.Formatter().format(logged) == "text"
    assert not is_news(logged)  # The record is still recognized, although its traceback was removed.


FULL = [OSError(errno.ENOSPC, "No space left on device"), sqlite3.OperationalError("database or disk is full")]


@pytest.mark.parametrize("error", FULL, ids=["system", "SQLite"])
def test_a_server_reports_a_full_disk_once(error: Exception) -> None:
    assert not is_news(record("Encountered exception during execution", error))
    assert not is_news(record(f"Failed to write result: {error}"))
    tell = full_disk_logged_once()
    first = record("Exception in ASGI application", error)
    assert tell(first)
    assert (first.getMessage(), first.exc_info) == (FULL_DISK, None)
    assert not tell(record("Exception in ASGI application", error))
    assert tell(record("Exception in ASGI application", ValueError("text")))
