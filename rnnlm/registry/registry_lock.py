"""One at a time: whoever registers, promotes or rolls back a model holds its lock.

A store that is a SQLite file can only be reached from its own machine, so a file lock beside it is enough, and the
kernel frees it however its holder ends. Behind a server or another database there may be other machines: see
ticket_queue.py.
"""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from filelock import FileLock, Timeout

from rnnlm.home import Home
from rnnlm.registry.model_names import lock_name
from rnnlm.registry.ticket_queue import PATIENCE_SECONDS, ensure_registered_model, queued, remove_queue, tickets
from rnnlm.tracking.mlflow_store import registry_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["Ticket", "ensure_registered_model", "holding"]
logger = logging.getLogger(__name__)
SQLITE = "sqlite:///"


class Ticket(Protocol):
    """The right to change a model, until it is given back."""

    def confirm(self) -> None:
        """TrackingError where the lock was lost; to be called right before what the lock protects."""


class FileTicket:
    """A file lock: the kernel takes it from nobody."""

    def confirm(self) -> None: ...


@contextlib.contextmanager
def holding(home: Home, client: "MlflowClient", name: str) -> Iterator[Ticket]:
    """The lock on the registered model `name`, when our turn has come."""
    uri = registry_uri(home)
    if not uri.startswith(SQLITE):
        with queued(client, lock_name(name)) as ticket:
            yield ticket
        return
    with file_locked(Path(uri.removeprefix(SQLITE)).parent, name):
        if not tickets(client, lock_name(name)):
            remove_queue(client, lock_name(name))  # an earlier version of this program left it among the models
        yield FileTicket()


@contextlib.contextmanager
def file_locked(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock file of the model in the folder of the database, wherever our home is."""
    Home(folder).make(folder / "locks")
    lock = FileLock(folder / "locks" / f"registry-{name}.lock")
    try:
        lock.acquire(timeout=PATIENCE_SECONDS)
    except Timeout:
        logger.warning("%s: waiting for another process that registers, promotes or rolls back", name)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
