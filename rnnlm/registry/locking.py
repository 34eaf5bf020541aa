"""One at a time, between all machines that share an MLflow store: a queue of tickets in the registry itself.

MLflow has no compare-and-set, and its store may be a database or a server that we reach by HTTP alone. But it numbers
the versions of a registered model, and a number is a primary key: given once, to one caller, and not again after a
deletion. So the registered model `_lock.NAME` is a queue, and its versions are tickets. Who wants the lock draws one;
the lowest ticket there is holds it; to give it back is to delete one's own ticket. Nobody ever writes to what another
may have taken meanwhile, so two can never both believe to have won.

A ticket of a killed process must not stand for ever. Each holder and waiter counts up its ticket's tag `beat` every
few seconds. Who waits behind a ticket whose beat has not changed for LEASE_SECONDS, by the waiter's own clock (clocks
of two machines differ), deletes it. A process that slept for longer finds its ticket gone, and confirm() says so.
What remains is a sleep that falls between confirm() and the call to MLflow after it.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnlm.errors import TrackingError
from rnnlm.registry.history import who
from rnnlm.registry.naming import lock_name

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
class Ticket:
    """A place in the queue."""

    client: "MlflowClient"
    queue: str
    number: str

    def confirm(self) -> None:
        """TrackingError where somebody took us for dead; to be called right before what the lock protects."""
        if not is_there(self.client, self.queue, self.number):
            raise TrackingError(
                f"the lock on {self.queue} was lost: this process was silent for {LEASE_SECONDS:.0f} s, and another "
                "took it over.\nNothing was promoted; do it again."
            )

    def give_back(self) -> None:
        discard(self.client, self.queue, self.number)


@contextmanager
def holding(client: "MlflowClient", name: str) -> Iterator[Ticket]:
    """The lock on the registered model `name`, when our turn has come. Killed while we hold it: see above."""
    queue = lock_name(name)
    ensure_registered_model(client, queue, DESCRIPTION)
    tags = {"owner": f"{who()} process {os.getpid()}", "beat": "0"}
    version = client.create_model_version(queue, SOURCE, tags=tags, await_creation_for=0)
    ticket = Ticket(client, queue, str(version.version))
    done = threading.Event()
    heart = threading.Thread(target=keep_beating, args=(ticket, done), daemon=True)
    heart.start()
    try:
        wait_for_turn(ticket)
        yield ticket
    finally:
        done.set()
        heart.join()
        ticket.give_back()


def keep_beating(ticket: Ticket, done: threading.Event) -> None:
    """Until `done`; a store that is away for a moment is asked again."""
    from mlflow.exceptions import MlflowException

    beat = 0
    while not done.wait(BEAT_SECONDS):
        beat += 1
        try:
            ticket.client.set_model_version_tag(ticket.queue, ticket.number, "beat", str(beat))
        except MlflowException as error:
            logger.warning("the lock on %s could not be renewed: %s", ticket.queue, str(error).splitlines()[0])


def wait_for_turn(ticket: Ticket) -> None:
    """Returns when no ticket stands before ours."""
    changed: dict[str, tuple[str, float]] = {}  # ticket → its beat, and when we first saw that one
    start, told = time.monotonic(), False
    while ahead := [other for other in tickets(ticket) if int(other.version) < int(ticket.number)]:
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
    ticket.confirm()


def tickets(ticket: Ticket) -> list["ModelVersion"]:
    """All places taken, lowest first."""
    found = ticket.client.search_model_versions(f"name = '{ticket.queue}'")
    return sorted(found, key=lambda version: int(version.version))


def owner(version: "ModelVersion") -> str:
    return str(version.tags.get("owner", "somebody"))


def is_there(client: "MlflowClient", queue: str, number: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        client.get_model_version(queue, number)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise
    return True


def discard(client: "MlflowClient", queue: str, number: str) -> None:
    """Clear one place; that another has cleared it already is no error."""
    from mlflow.exceptions import MlflowException

    try:
        client.delete_model_version(queue, number)
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
