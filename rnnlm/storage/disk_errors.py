"""Read errors, full disks, too little memory: retry what may pass, and explain what does not."""

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

ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # a missing file is damage, not a read error
TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN)  # worth another attempt
READ_ATTEMPTS, FIRST_PAUSE_SECONDS = 4, 0.2  # the pause doubles with each attempt
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_TEXTS = (  # of errors without an errno
    "No space left on device",  # DuckDB, Arrow, safetensors
    "database or disk is full",  # SQLite
)
NO_MEMORY_TEXTS = (  # in names and texts of errors of Python, Arrow, DuckDB, torch and the loader of libraries
    "MemoryError",
    "OutOfMemory",
    "out of memory",
    "bad_alloc",
    "allocate memory",
    "not enough memory",
    "failed to map segment",
    "can't start new thread",
)
NEARLY_FULL_BYTES = 4 << 20  # SQLite's logs need some megabytes before anything is stored
LEAST_OF_A_FLOW_BYTES = 12 << 20  # Prefect's database and its log, before anything of ours
FEWEST_FILES = 64  # open at once, for a command that starts a server
RESTORE = "Restore a backup into a new home (rnnlm restore), or move the database away to begin a new one."
T = TypeVar("T")


def read_with_retries(path: Path, read: Callable[[Path], T]) -> T:
    """Return `read(path)`, repeated after a transient error.

    A missing file raises its own error, one of ABSENT. HomeError if the file exists but cannot be read: this says
    nothing about its content, so callers must not treat it as damage.
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
    """Turn what any library raises for a full disk, a damaged database, or too little memory or files into a HomeError.

    folder: on the disk that is written to.
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
    """Say what this machine lacks or has damaged, and what to do, if that is what the error says; else return None.

    folder: on the disk that was written to; None: none was.
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
    """Return what SQLite says of a file whose pages or schema are damaged; "" if the error is another one."""
    found = (str(cause) for cause in causes_of(error) if type(cause) is sqlite3.DatabaseError)
    return next(found, "")


def refuse_damaged_database(path: Path) -> None:
    """Raise HomeError if there is a file that is no SQLite database, or one with a damaged schema."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.Error as error:
        if damage := damage_of_database(error):  # a busy one, say, is not damaged
            raise HomeError(f"{path}: is damaged ({damage[:100]}).\n{RESTORE}") from error


def too_few_files() -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"too many files are open: the limit is {limit:,}, expected at least {FEWEST_FILES:,}; raise it (ulimit -n)"


def check_space(folder: Path) -> None:
    """Raise HomeError if so little space is left that an error of Prefect's server would end a flow in the middle."""
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
    """Return the number of bytes left on the disk of the folder, or of the nearest one above it that exists."""
    return shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists())).free


def is_of_storage(text: str) -> bool:
    """Return True for the name and text of an error that databases and Prefect's server give when they cannot write."""
    return any(part in text for part in ("disk I/O error", "unable to open database file", "500 Internal Server Error"))


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and those that led to it."""
    cause: BaseException | None = error
    seen: set[int] = set()  # an error may be its own cause
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def is_full_disk(error: BaseException) -> bool:
    """Return True if the error, or one of its causes, reports a full disk or quota."""
    return any(getattr(one, "errno", None) in FULL or mentions_full_disk(str(one)) for one in causes_of(error))


def mentions_full_disk(text: str) -> bool:
    return any(full in text for full in FULL_TEXTS)
