"""The lock on a registered model: hold it to register, promote or roll back a version.

It is a file in the folder of the SQLite store, or in the home if the registry is a server. The kernel frees it however
its holder ends. What several machines do to a server is kept apart by tasks/operations/registry_turn.py.
"""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import registry_uri

logger = logging.getLogger(__name__)
SQLITE = "sqlite:///"
WAIT_NOTICE_SECONDS = 3.0  # of waiting before a warning


@contextlib.contextmanager
def registry_lock(home: Home, name: str) -> Iterator[None]:
    """Wait for the lock on the registered model `name` and hold it for the block."""
    folder = home.root if is_shared(home) else Path(registry_uri(home).removeprefix(SQLITE)).parent
    Home(folder).make(folder / "locks")
    lock = FileLock(folder / "locks" / f"registry-{name}.lock")
    try:
        lock.acquire(timeout=WAIT_NOTICE_SECONDS)
    except Timeout:
        logger.warning("%s: waiting for another process that registers, promotes or rolls back", name)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def is_shared(home: Home) -> bool:
    """Return True if the registry is a server or a database, which other machines may use."""
    return not registry_uri(home).startswith(SQLITE)
