"""Errors of disks and memory. After a temporary error, reading is repeated; all other errors are explained."""

import errno
import resource
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from rnnlm.errors import HomeError, RnnlmError

# Errors that are raised for a missing file. They count as damage and not as read errors.
ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# The numbers of errors after which another attempt may succeed.
TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN)
# The largest number of attempts to read, and the pause after the first attempt. The pause doubles with each attempt.
READ_ATTEMPTS, FIRST_PAUSE_SECONDS = 4, 0.2
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_TEXTS = (  # Texts that identify a full disk in errors without an errno.
    "No space left on device",  # The text in errors of DuckDB, Arrow and safetensors.
    "database or disk is full",  # The text in errors of SQLite.
)
# The names and texts of out-of-memory errors in Python, Arrow, DuckDB, torch and the loader of shared libraries.
NO_MEMORY_TEXTS = (
    "MemoryError",
    "OutOfMemory",
    "out of memory",
    "bad_alloc",
    "allocate memory",
    "not enough memory",
    "failed to map segment",
    "can't start new thread",
)
# With less free disk space than this, SQLite's log does not fit even before data is stored.
NEARLY_FULL_BYTES = 4 << 20
# The free disk space that Prefect's database and its log need before rnnlm stores any data.
LEAST_OF_A_FLOW_BYTES = 12 << 20
FEWEST_FILES = 64  # The smallest limit for the number of open files with which a command can start a server.
RESTORE = "Restore a backup into a new home (rnnlm restore), or move the database away to begin a new one."
T = TypeVar("T")


def read_with_retries(path: Path, read: Callable[[Path], T]) -> T:
    """Return `read(path)`, which is called again after a temporary error.

    If the file is missing, the error that `read` raises is passed on. It is one of ABSENT. Raise HomeError if the file
    exists but cannot be read. Callers must not treat this as damage, because the content is unknown.
    """
    for attempt in range(READ_ATTEMPTS):
        try:
            return read(path)
        except ABSENT:
            raise
        except OSError as error:
            if error.errno in TRANSIENT and attempt + 1 < READ_ATTEMPTS:
                time.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
                continue
            raise HomeError(
                f"{path}: cannot be read ({error.strerror or error}). Nothing was changed.\n"
                "Check the disk or the network share and the file's permissions, then run again."
            ) from error
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def full_disk_explained(folder: Path) -> Iterator[None]:
    """Raise HomeError in place of any error that a full disk, a damaged database or a lack of memory causes.

    `folder` is a folder on the disk that is written to.
    """
    try:
        yield
    except HomeError:
        raise
    except Exception as error:
        reason = shortage(error, folder)
        if reason is None:
            raise
        raise HomeError(reason) from error


def shortage(error: Exception, folder: Path | None = None) -> str | None:
    """Return a description of what this machine lacks or which file is damaged, with advice, or None for other errors.

    `folder` is a folder on the disk that was written to. If it is None, nothing was written.
    """
    texts = [f"{type(cause).__name__}: {cause}" for cause in causes_of(error)]
    refused = folder is not None and is_nearly_full(folder) and any(map(is_of_storage, texts))
    if folder is not None and (refused or is_full_disk(error)):
        return no_space(folder)
    codes = {getattr(cause, "errno", None) for cause in causes_of(error)}
    if codes & {errno.EMFILE, errno.ENFILE}:
        return too_few_files()
    if isinstance(error, RnnlmError):
        return None
    if damage := damage_of_database(error):
        return f"mlflow.db or prefect/prefect.db of this home is damaged ({damage[:100]}).\n{RESTORE}"
    if errno.ENOMEM in codes or any(part in text for text in texts for part in NO_MEMORY_TEXTS):
        return (
            f"not enough memory ({' '.join(texts[0].split())[:100]}).\n"
            "End other programs, raise the limit (ulimit -v), or use a smaller text or model."
        )
    return None


def damage_of_database(error: BaseException) -> str:
    """Return SQLite's description of a damaged file or schema, or "" if the error has another reason."""
    found = (str(cause) for cause in causes_of(error) if type(cause) is sqlite3.DatabaseError)
    return next(found, "")


def refuse_damaged_database(path: Path) -> None:
    """Raise HomeError if the file exists, but is not an SQLite database or has a damaged schema."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.Error as error:
        # The description is "" if the database is not damaged but, for instance, busy.
        if damage := damage_of_database(error):
            raise HomeError(f"{path}: is damaged ({damage[:100]}).\n{RESTORE}") from error


def too_few_files() -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"too many files are open: the limit is {limit:,}, expected at least {FEWEST_FILES:,}; raise it (ulimit -n)"


def check_space(folder: Path) -> None:
    """Raise HomeError if the disk is so full that Prefect's server would fail during a flow run."""
    if free_bytes(folder) < LEAST_OF_A_FLOW_BYTES:
        raise HomeError(no_space(folder))


def no_space(folder: Path) -> str:
    return (
        f"{folder}: no space is left on this disk, or on that of the temporary files.\n"
        "Free some space and run again; finished work is kept."
    )


def is_nearly_full(folder: Path) -> bool:
    return free_bytes(folder) < NEARLY_FULL_BYTES


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of the folder, or of its nearest parent that exists."""
    return shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists())).free


def is_of_storage(text: str) -> bool:
    """Return True if the text of an error says that a database or Prefect's server could not write."""
    return any(part in text for part in ("disk I/O error", "unable to open database file", "500 Internal Server Error"))


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and all errors that caused it."""
    cause: BaseException | None = error
    # The ids of the errors that were yielded. They prevent an endless loop, because an error may be its own cause.
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def is_full_disk(error: BaseException) -> bool:
    """Return True if the error, or one of its causes, reports a full disk or quota."""
    return any(getattr(one, "errno", None) in FULL or mentions_full_disk(str(one)) for one in causes_of(error))


def mentions_full_disk(text: str) -> bool:
    return any(full in text for full in FULL_TEXTS)
