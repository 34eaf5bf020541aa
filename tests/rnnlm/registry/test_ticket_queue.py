"""One at a time, also between machines; a killed process does not hold up the others for ever."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rnnlm.errors import TrackingError
from rnnlm.home import Home
from rnnlm.registry import ticket_queue
from rnnlm.registry.model_lookup import known_models, list_models
from rnnlm.registry.model_names import lock_name
from rnnlm.registry.ticket_queue import QueueTicket, discard, ensure_registered_model, queued, remove_queue, tickets
from rnnlm.tracking.mlflow_store import reaching_mlflow

QUEUE = lock_name("contest")
HOLDER = """
import sys, time
from pathlib import Path
from rnnlm.home import Home
from rnnlm.registry import ticket_queue
from rnnlm.tracking.mlflow_store import reaching_mlflow

ticket_queue.BEAT_SECONDS = 0.1
with reaching_mlflow(Home(Path(sys.argv[1]))) as client, ticket_queue.queued(client, "_lock.contest"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticket_queue, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(ticket_queue, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(ticket_queue, "POLL_SECONDS", 0.05)


@contextmanager
def lock(home: Home) -> Iterator[QueueTicket]:
    with reaching_mlflow(home) as client, queued(client, QUEUE) as ticket:
        yield ticket


@pytest.mark.long
def test_only_one_holds_it_at_a_time_and_all_get_their_turn(tracked_home: Home) -> None:
    inside: list[str] = []

    def take(name: str) -> None:
        with lock(tracked_home):
            inside.extend([f"{name} in"])
            time.sleep(0.1)
            inside.extend([f"{name} out"])

    threads = [threading.Thread(target=take, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(inside) == ["a in", "a out", "b in", "b out", "c in", "c out"]
    for entered, left in zip(inside[::2], inside[1::2], strict=True):
        assert entered.split()[0] == left.split()[0]


@pytest.mark.long
def test_who_holds_it_longer_than_the_lease_but_beats_is_left_alone(
    tracked_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_queue, "LEASE_SECONDS", 3.0)  # 30 beats: a busy machine may be late with some
    got = threading.Event()

    def wait() -> None:
        with lock(tracked_home):
            got.set()

    with lock(tracked_home) as ticket:
        other = threading.Thread(target=wait)
        other.start()
        assert not got.wait(4.0)
        ticket.confirm()
    other.join()
    assert got.is_set()


@pytest.mark.slow
def test_who_was_killed_loses_it_after_the_lease(tracked_home: Home) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tracked_home.root)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"RNNLM_HOME": str(tracked_home.root)},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        start = time.monotonic()
        with lock(tracked_home) as ticket:
            waited = time.monotonic() - start
            assert len(tickets(ticket.client, QUEUE)) == 1
        assert 1.0 < waited < 10
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.long
def test_a_ticket_without_tags_is_waited_for_like_any_other(tracked_home: Home) -> None:
    """Who draws one or gives it back is no single moment: another may read the ticket before its tags, or after."""
    with reaching_mlflow(tracked_home) as client:
        ensure_registered_model(client, QUEUE)
        bare = client.create_model_version(QUEUE, ticket_queue.SOURCE, await_creation_for=0)
    with lock(tracked_home) as ticket:
        assert int(bare.version) < int(ticket.number)
        assert len(tickets(ticket.client, QUEUE)) == 1


def test_a_process_that_slept_too_long_learns_that_it_lost(tracked_home: Home) -> None:
    with pytest.raises(TrackingError, match="another took it over"), lock(tracked_home) as ticket:
        discard(ticket.client, ticket.queue, ticket.number)  # as somebody does who takes us for dead
        ticket.confirm()


def test_a_failure_inside_gives_it_back(tracked_home: Home) -> None:
    with pytest.raises(ValueError, match="mine"), lock(tracked_home):
        raise ValueError("mine")
    with lock(tracked_home) as ticket:
        assert len(tickets(ticket.client, QUEUE)) == 1


def test_locks_of_two_models_have_nothing_to_do_with_each_other(tracked_home: Home) -> None:
    with reaching_mlflow(tracked_home) as client, queued(client, "_lock.one"), queued(client, "_lock.two") as ticket:
        ticket.confirm()


def test_listing_models_never_shows_it(tracked_home: Home) -> None:
    with lock(tracked_home):
        assert list_models(tracked_home) == []
        assert "_lock" not in known_models(tracked_home)


def registered(home: Home) -> list[str]:
    """What MLflow's model list shows."""
    with reaching_mlflow(home) as client:
        return [model.name for model in client.search_registered_models()]


def test_nobody_sees_it_while_it_is_idle(tracked_home: Home) -> None:
    with lock(tracked_home):
        assert registered(tracked_home) == [QUEUE]
    assert registered(tracked_home) == []


def test_who_drew_a_ticket_of_a_queue_that_is_removed_draws_again(tracked_home: Home) -> None:
    """As when the last holder saw no other ticket, one was drawn, and the queue went with both."""
    got: list[str] = []

    def wait() -> None:
        with lock(tracked_home) as ticket:
            got.append(ticket.number)
            ticket.confirm()

    with lock(tracked_home) as ticket:
        other = threading.Thread(target=wait)
        other.start()
        while len(tickets(ticket.client, QUEUE)) < 2:
            time.sleep(0.02)
        remove_queue(ticket.client, QUEUE)
        other.join(timeout=60)
        assert got == ["1"]


def test_a_ticket_of_the_same_number_in_a_later_queue_is_another(tracked_home: Home) -> None:
    with pytest.raises(TrackingError, match="another took it over"), lock(tracked_home) as ticket:
        remove_queue(ticket.client, QUEUE)
        with lock(tracked_home) as later:
            assert later.number == ticket.number
            later.confirm()
            ticket.confirm()
