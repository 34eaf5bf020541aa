"""Any library's error about a resource that the machine lacks is replaced by a message that names the resource."""

import errno
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from rnnlm.errors import HomeError, ModelError
from rnnlm.storage.disk_errors import NEARLY_FULL_BYTES, check_space, full_disk_explained
from tests.rnnlm.storage.small_disk import small_disk

__all__ = ["small_disk"]


def told(error: Exception, folder: Path) -> str | None:
    """Return the message into which full_disk_explained() changes an error, or None if it changes nothing."""
    try:
        with full_disk_explained(folder):
            raise error
    except HomeError as explained:
        assert explained.__cause__ is error
        assert len(str(explained).splitlines()) <= 3
        return str(explained)
    except Exception as same:
        assert same is error
        return None


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space is left"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "no space is left"),
        (sqlite3.OperationalError("database or disk is full"), "no space is left"),
        (caused_by(ValueError("x"), OSError(errno.ENOSPC, "No space left on device")), "no space is left"),
        (MemoryError(), "not enough memory"),
        (pa.lib.ArrowMemoryError("malloc of size 99 failed"), "not enough memory"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "not enough memory"),
        (RuntimeError("can't start new thread"), "not enough memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
        (OSError(errno.EMFILE, "Too many open files"), "too many files are open"),
        (caused_by(RuntimeError("x"), OSError(errno.ENFILE, "File table overflow")), "too many files are open"),
        (ValueError("a fault of ours"), None),
        (ImportError("No module named 'nothing'"), None),
        (ModelError("not enough memory is no cell"), None),
        (sqlite3.OperationalError("no such table: runs"), None),
        # The disk has free space, so this error has another cause.
        (sqlite3.OperationalError("disk I/O error"), None),
    ],
    ids=repr,
)
def test_what_is_lacking_is_said(error: Exception, reason: str | None, tmp_path: Path) -> None:
    found = told(error, tmp_path)
    assert (found is None) == (reason is None)
    if reason is not None:
        assert reason in str(found)


def test_a_database_that_cannot_be_opened_may_lack_space(small_disk: Path) -> None:
    """Lack of disk space is reported if a database cannot be opened because of it.

    In this case, SQLite reports `disk I/O error`, and Prefect's server responds with status 500.
    """
    check_space(small_disk.parent)
    (small_disk / "full").write_bytes(bytes((8 << 20) - NEARLY_FULL_BYTES + 1))
    for error in (
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.OperationalError("unable to open database file"),
        RuntimeError("Server error '500 Internal Server Error' for url"),
    ):
        assert "no space is left" in str(told(error, small_disk / "home" / "not made"))
    assert told(ValueError("a fault of ours"), small_disk) is None
    with pytest.raises(HomeError, match="no space is left"):
        check_space(small_disk / "home")
