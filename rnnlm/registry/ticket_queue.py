"""A lock between all machines that share an MLflow server: a queue of tickets in the registry itself.

MLflow has no compare-and-set, and a server is reached by HTTP alone. But it numbers the versions of a registered model,
and a number is a primary key: given once, to one caller. So the registered model `_lock.NAME` is a queue, and its
versions are tickets. Who wants the lock draws one; the lowest ticket holds it. Nobody ever writes to what another may
have taken meanwhile, so two can never both believe to have won.

The queue is only there while somebody is in it: who gives the lock back and sees no other ticket removes the queue
together with its own ticket. A ticket drawn at that very moment is removed with it, before it was ever the lowest, and
its owner draws again. Numbers then begin at 1 again, so a ticket is known by its source, which is unique.

A ticket of a killed process must not stand for ever. Each holder and waiter counts up its ticket's tag `beat` every
few seconds. Who waits behind a ticket whose beat has not changed for LEASE_SECONDS, by the waiter's own clock (clocks
of two machines differ), deletes it. A process that slept for longer finds its ticket gone, and confirm() says so.
What remains is a sleep that falls between confirm() and the call to MLflow after it, or before a queue is removed:
then a waiter's ticket is lost, and the waiter is told.
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

from rnnlm.errors import TrackingError
from rnnlm.registry.champion_history import who

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)
LEASE_SECONDS = 60.0  # without a beat, before a ticket counts as its dead owner's
BEAT_SECONDS = 5.0
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 3.0  # of waiting, before one is told for whom
SOURCE = "lock:///ticket"  # a version must name a place: this is none
DESCRIPTION = "No model: the queue of those who register, promote or roll back. Its versions are tickets; leave it be."


@dataclass(frozen=True)
class QueueTicket:
    """A place in the queue."""

    client: "MlflowClient"
    queue: str
    number: str
    source: str

    def confirm(self) -> None:
        """TrackingError where somebody took us for dead; to be called right before what the lock protects."""
        if not any(self.is_ours(version) for version in tickets(self.client, self.queue)):
            raise TrackingError(
                f"the lock on {self.queue} was lost: this process was silent for {LEASE_SECONDS:.0f} s, and another "
                "took it over.\nNothing was promoted; do it again."
            )

    def is_ours(self, version: "ModelVersion") -> bool:
        return str(version.version) == self.number and version.source == self.source

    def give_back(self) -> None:
        """The queue goes with the last ticket: people do not see it among the models."""
        waiting = tickets(self.client, self.queue)
        if len(waiting) == 1 and self.is_ours(waiting[0]):
            remove_queue(self.client, self.queue)
        elif any(self.is_ours(version) for version in waiting):
            discard(self.client, self.queue, self.number)


@contextmanager
def queued(client: "MlflowClient", queue: str) -> Iterator[QueueTicket]:
    """A ticket of the queue, when its turn has come."""
    while True:
        ticket = draw(client, queue)
        with beating(ticket):
            try:
                if wait_for_turn(ticket):
                    yield ticket
                    return
            finally:
                give_back_or_warn(ticket)


def give_back_or_warn(ticket: QueueTicket) -> None:
    """An error of the block that held the lock says more than one of giving it back."""
    from mlflow.exceptions import MlflowException

    try:
        ticket.give_back()
    except MlflowException as error:
        cause = str(error).splitlines()[0]
        logger.warning("%s: not given back, it expires in %.0f s: %s", ticket.queue, LEASE_SECONDS, cause)


def draw(client: "MlflowClient", queue: str) -> QueueTicket:
    """The next ticket."""
    from mlflow.exceptions import MlflowException

    source = f"{SOURCE}/{uuid.uuid4().hex}"
    tags = {"owner": f"{who()} process {os.getpid()}", "beat": "0"}
    while True:
        ensure_registered_model(client, queue, DESCRIPTION)
        try:
            version = client.create_model_version(queue, source, tags=tags, await_creation_for=0)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":  # its last holder has removed the queue meanwhile
                raise
        else:
            return QueueTicket(client, queue, str(version.version), source)


@contextmanager
def beating(ticket: QueueTicket) -> Iterator[None]:
    """Renew the ticket for the block."""
    done = threading.Event()
    heart = threading.Thread(target=keep_beating, args=(ticket, done), daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join()


def keep_beating(ticket: QueueTicket, done: threading.Event) -> None:
    """Until `done`; a store that is away for a moment is asked again."""
    from mlflow.exceptions import MlflowException

    beat = 0
    while not done.wait(BEAT_SECONDS):
        beat += 1
        try:
            ticket.client.set_model_version_tag(ticket.queue, ticket.number, "beat", str(beat))
        except MlflowException as error:
            logger.warning("the lock on %s could not be renewed: %s", ticket.queue, str(error).splitlines()[0])


def wait_for_turn(ticket: QueueTicket) -> bool:
    """True when no ticket stands before ours; False where ours is gone: draw again."""
    changed: dict[str, tuple[str, float]] = {}  # ticket → its beat, and when we first saw that one
    start, told = time.monotonic(), False
    while True:
        waiting = tickets(ticket.client, ticket.queue)
        if not any(ticket.is_ours(version) for version in waiting):
            return False
        ahead = [other for other in waiting if int(other.version) < int(ticket.number)]
        if not ahead:
            return True
        for other in ahead:
            # A ticket that is just being drawn or given back may be read without its tags.
            number, beat, now = str(other.version), other.tags.get("beat", ""), time.monotonic()
            if number not in changed or changed[number][0] != beat:
                changed[number] = (beat, now)
            elif now - changed[number][1] > LEASE_SECONDS:
                logger.warning(
                    "%s: %s was silent for %.0f s; its place is cleared", ticket.queue, owner(other), LEASE_SECONDS
                )
                discard(ticket.client, ticket.queue, number)
        if not told and time.monotonic() - start > PATIENCE_SECONDS:
            logger.warning("%s: waiting for %s", ticket.queue, owner(ahead[0]))
            told = True
        time.sleep(POLL_SECONDS)


def tickets(client: "MlflowClient", queue: str) -> list["ModelVersion"]:
    """All places taken, lowest first."""
    found = client.search_model_versions(f"name = '{queue}'")
    return sorted(found, key=lambda version: int(version.version))


def owner(version: "ModelVersion") -> str:
    return str(version.tags.get("owner", "somebody"))


def discard(client: "MlflowClient", queue: str, number: str) -> None:
    """Clear one place; that another has cleared it already is no error."""
    with already_gone_is_fine():
        client.delete_model_version(queue, number)


def remove_queue(client: "MlflowClient", queue: str) -> None:
    """Remove the queue with all its tickets, where it is there."""
    with already_gone_is_fine():
        client.delete_registered_model(queue)


@contextmanager
def already_gone_is_fine() -> Iterator[None]:
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise


def ensure_registered_model(client: "MlflowClient", name: str, description: str | None = None) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name, description=description)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
