"""Read errors and full disks: retry what may pass, and explain what does not."""

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rnnlm.errors import HomeError

ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # a missing file is damage, not a read error
TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN)  # worth another attempt
READ_ATTEMPTS, FIRST_PAUSE_SECONDS = 4, 0.2  # the pause doubles with each attempt
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_TEXTS = (  # of errors without an errno
    "No space left on device",  # DuckDB, Arrow, safetensors
    "database or disk is full",  # SQLite
)
T = TypeVar("T")


def read_with_retries(path: Path, read: Callable[[Path], T]) -> T:
    """`read(path)`, repeated after a transient error.

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
    """Turn the error of a full disk, from any library, into a HomeError that names the folder."""
    try:
        yield
    except Exception as error:
        if isinstance(error, HomeError) or not is_full_disk(error):
            raise
        raise HomeError(
            f"{folder}: no space is left on this disk, or on that of the temporary files.\n"
            "Free some space and run again; finished work is kept."
        ) from error


def is_full_disk(error: BaseException) -> bool:
    """True if the error, or one of its causes, reports a full disk or quota."""
    cause: BaseException | None = error
    seen: set[int] = set()  # an error may be its own cause
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if getattr(cause, "errno", None) in FULL or mentions_full_disk(str(cause)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def mentions_full_disk(text: str) -> bool:
    return any(full in text for full in FULL_TEXTS)
