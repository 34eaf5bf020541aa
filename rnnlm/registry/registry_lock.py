"""The lock on a registered model: hold it to register, promote or roll back a version.

A SQLite store can only be reached from its own machine, so a file lock beside it is enough; the kernel frees it however
its holder ends. A server or another database may be shared by several machines: see ticket_queue.py.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from rnnlm.home import Home
from rnnlm.registry.model_names import lock_name
from rnnlm.registry.ticket_queue import WAIT_NOTICE_SECONDS, queued, remove_queue, tickets
from rnnlm.tracking.mlflow_store import registry_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)
SQLITE = "sqlite:///"


@contextlib.contextmanager
def registry_lock(home: Home, client: "MlflowClient", name: str) -> Iterator[Callable[[], None]]:
    """Wait for the lock on the registered model `name` and hold it for the block.

    Call the function that it gives right before the change: TrackingError if the lock was lost.
    """
    uri = registry_uri(home)
    if not uri.startswith(SQLITE):
        with queued(client, lock_name(name)) as ticket:
            yield ticket.confirm
        return
    with file_locked(Path(uri.removeprefix(SQLITE)).parent, name):
        if not tickets(client, lock_name(name)):
            remove_queue(client, lock_name(name))  # left there by an earlier version of this program
        yield lambda: None  # a file lock cannot be lost


@contextlib.contextmanager
def file_locked(folder: Path, name: str) -> Iterator[None]:
    """Hold the model's lock file, in the folder of the database."""
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
