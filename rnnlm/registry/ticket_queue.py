"""A lock between all machines that share an MLflow server: a queue of tickets in the registry itself.

MLflow has no compare-and-set, and a server can only be reached by HTTP. But it numbers the versions of a registered
model, and a number is a primary key: given once, to one caller. So the registered model `_lock.NAME` is a queue and its
versions are tickets. To get the lock, draw a ticket and wait until it is the lowest. Nobody writes to another's ticket,
so two processes can never both believe that they hold the lock.

The queue exists only while somebody is in it: the last holder removes the queue together with its own ticket. A ticket
drawn at that very moment is removed too, before it was ever the lowest, and its owner draws again. Numbers then restart
at 1, so a ticket is identified by its source, which is unique.

The ticket of a killed process must not block the queue for ever. Each holder and waiter updates its ticket's tag `beat`
every few seconds. A waiter deletes a ticket ahead of it whose beat has not changed for LEASE_SECONDS by its own clock
(clocks of two machines differ). A process that slept for longer finds its ticket gone, and confirm() raises. One gap
remains: a sleep between confirm() and the following call to MLflow, or before a queue is removed. Then a waiter's
ticket is lost, and the waiter is told.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnlm.current_user import who
from rnnlm.errors import TrackingError
from rnnlm.registry.champion_history import all_versions
from rnnlm.tracking.mlflow_store import ignoring

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)
LEASE_SECONDS = 60.0  # without a beat; then the ticket's owner counts as dead
BEAT_SECONDS = 5.0
POLL_SECONDS = 0.5
WAIT_NOTICE_SECONDS = 3.0  # of waiting before a warning names the holder
SOURCE = "lock:///ticket"  # a version must have a source; this one does not exist
MISSING = "RESOURCE_DOES_NOT_EXIST"  # MLflow's error code
DESCRIPTION = "Not a model: a lock for registering, promoting and rolling back. Its versions are tickets; do not edit."


@dataclass(frozen=True)
class QueueTicket:
    """A place in the queue."""

    client: "MlflowClient"
    queue: str
    number: str
    source: str

    def confirm(self) -> None:
        """TrackingError if another process took this one for dead. Call it right before the protected change."""
        if not any(self.is_own(version) for version in tickets(self.client, self.queue)):
            raise TrackingError(
                f"the lock on {self.queue} was lost: this process was silent for {LEASE_SECONDS:.0f} s, and another "
                "took it over.\nNothing was promoted; run the command again."
            )

    def is_own(self, version: "ModelVersion") -> bool:
        return str(version.version) == self.number and version.source == self.source

    def give_back(self) -> None:
        """Remove the ticket, and with the last one the queue, so that it does not stay among the models."""
        waiting = tickets(self.client, self.queue)
        if len(waiting) == 1 and self.is_own(waiting[0]):
            remove_queue(self.client, self.queue)
        elif any(self.is_own(version) for version in waiting):
            discard(self.client, self.queue, self.number)


@contextmanager
def queued(client: "MlflowClient", queue: str) -> Iterator[QueueTicket]:
    """Draw a ticket, wait for its turn and hold it for the block."""
    while True:
        ticket = draw_ticket(client, queue)
        with beating(ticket):
            try:
                if wait_for_turn(ticket):
                    yield ticket
                    return
            finally:
                give_back_or_warn(ticket)


def give_back_or_warn(ticket: QueueTicket) -> None:
    """Only warn: an error of the block that held the lock matters more than one of giving it back."""
    from mlflow.exceptions import MlflowException

    try:
        ticket.give_back()
    except MlflowException as error:
        cause = str(error).splitlines()[0]
        logger.warning(
            "%s: the lock could not be released and expires in %.0f s: %s", ticket.queue, LEASE_SECONDS, cause
        )


def draw_ticket(client: "MlflowClient", queue: str) -> QueueTicket:
    """The next ticket."""
    from mlflow.exceptions import MlflowException

    source = f"{SOURCE}/{uuid.uuid4().hex}"
    tags = {"owner": f"{who()} process {os.getpid()}", "beat": "0"}
    while True:
        ensure_registered_model(client, queue, DESCRIPTION)
        try:
            version = client.create_model_version(queue, source, tags=tags, await_creation_for=0)
            return QueueTicket(client, queue, str(version.version), source)
        except MlflowException:
            # The last holder may have removed the queue before or while the ticket was written. Then there is no common
            # error code: SQLAlchemy may find the row of the queue gone in the middle of the transaction.
            if queue_exists(client, queue):
                raise


def queue_exists(client: "MlflowClient", queue: str) -> bool:
    with ignoring(MISSING):
        client.get_registered_model(queue)
        return True
    return False


@contextmanager
def beating(ticket: QueueTicket) -> Iterator[None]:
    """Renew the ticket during the block."""
    done = threading.Event()
    heart = threading.Thread(target=keep_beating, args=(ticket, done), daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join()


def keep_beating(ticket: QueueTicket, done: threading.Event) -> None:
    """Until `done`; if the store is unavailable, try again at the next beat."""
    from mlflow.exceptions import MlflowException

    beat = 0
    while not done.wait(BEAT_SECONDS):
        beat += 1
        try:
            ticket.client.set_model_version_tag(ticket.queue, ticket.number, "beat", str(beat))
        except MlflowException as error:
            logger.warning("the lock on %s could not be renewed: %s", ticket.queue, str(error).splitlines()[0])


def wait_for_turn(ticket: QueueTicket) -> bool:
    """True when no ticket is ahead of this one; False if this one is gone: draw again."""
    changed: dict[str, tuple[str, float]] = {}  # ticket → its beat, and when that beat was first seen
    start, warned = time.monotonic(), False
    while True:
        waiting = tickets(ticket.client, ticket.queue)
        if not any(ticket.is_own(version) for version in waiting):
            return False
        ahead = [other for other in waiting if int(other.version) < int(ticket.number)]
        if not ahead:
            return True
        for other in ahead:
            # A ticket that is just being drawn or removed may have no tags yet.
            number, beat, now = str(other.version), other.tags.get("beat", ""), time.monotonic()
            if number not in changed or changed[number][0] != beat:
                changed[number] = (beat, now)
            elif now - changed[number][1] > LEASE_SECONDS:
                logger.warning(
                    "%s: %s was silent for %.0f s; its place is cleared", ticket.queue, owner(other), LEASE_SECONDS
                )
                discard(ticket.client, ticket.queue, number)
        if not warned and time.monotonic() - start > WAIT_NOTICE_SECONDS:
            logger.warning("%s: waiting for %s", ticket.queue, owner(ahead[0]))
            warned = True
        time.sleep(POLL_SECONDS)


def tickets(client: "MlflowClient", queue: str) -> list["ModelVersion"]:
    """All tickets, lowest first."""
    return sorted(all_versions(client, queue), key=lambda version: int(version.version))


def owner(version: "ModelVersion") -> str:
    return str(version.tags.get("owner", "somebody"))


def discard(client: "MlflowClient", queue: str, number: str) -> None:
    """Delete one ticket, if it is still there."""
    with ignoring(MISSING):
        client.delete_model_version(queue, number)


def remove_queue(client: "MlflowClient", queue: str) -> None:
    """Delete the queue with all its tickets, if it is still there."""
    with ignoring(MISSING):
        client.delete_registered_model(queue)


def ensure_registered_model(client: "MlflowClient", name: str, description: str | None = None) -> None:
    with ignoring("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name, description=description)
