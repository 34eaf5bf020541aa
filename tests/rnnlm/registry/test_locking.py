"""One at a time, also between processes; whom the world forgets does not hold up the others for ever."""

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
from rnnlm.registry import locking
from rnnlm.registry.locking import Ticket, holding
from rnnlm.registry.lookup import known_models, list_models
from rnnlm.registry.naming import lock_name
from rnnlm.tracking.store import reaching_mlflow, tracking_uri

HOLDER = """
import sys, time
from pathlib import Path
from rnnlm.home import Home
from rnnlm.registry import locking
from rnnlm.tracking.store import reaching_mlflow

locking.BEAT_SECONDS = 0.1
with reaching_mlflow(Home(Path(sys.argv[1]))) as client, locking.holding(client, "contest"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(locking, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(locking, "POLL_SECONDS", 0.05)


@contextmanager
def lock(home: Home) -> Iterator[Ticket]:
    with reaching_mlflow(home) as client, holding(client, "contest") as ticket:
        yield ticket


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


def test_who_holds_it_longer_than_the_lease_but_beats_is_left_alone(
    tracked_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LEASE_SECONDS", 3.0)  # thirty beats: a busy machine may be late with some of them
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
            assert len(locking.tickets(ticket)) == 1
        assert 1.0 < waited < 10
    finally:
        holder.kill()
        holder.wait()


def test_a_ticket_without_tags_is_waited_for_like_any_other(tracked_home: Home) -> None:
    """Who draws one or gives it back is no single moment: another may read the ticket before its tags, or after."""
    with reaching_mlflow(tracked_home) as client:
        queue = lock_name("contest")
        locking.ensure_registered_model(client, queue)
        bare = client.create_model_version(queue, locking.SOURCE, await_creation_for=0)
    with lock(tracked_home) as ticket:
        assert int(bare.version) < int(ticket.number)
        assert len(locking.tickets(ticket)) == 1


def test_a_process_that_slept_too_long_learns_that_it_lost(tracked_home: Home) -> None:
    with pytest.raises(TrackingError, match="another took it over"), lock(tracked_home) as ticket:
        locking.discard(ticket.client, ticket.queue, ticket.number)  # as somebody does who takes us for dead
        ticket.confirm()


def test_a_failure_inside_gives_it_back(tracked_home: Home) -> None:
    with pytest.raises(ValueError, match="mine"), lock(tracked_home):
        raise ValueError("mine")
    with lock(tracked_home) as ticket:
        assert len(locking.tickets(ticket)) == 1


def test_locks_of_two_models_have_nothing_to_do_with_each_other(tracked_home: Home) -> None:
    with reaching_mlflow(tracked_home) as client, holding(client, "one"), holding(client, "two") as ticket:
        ticket.confirm()


def test_listing_models_never_shows_it(tracked_home: Home) -> None:
    with lock(tracked_home):
        assert list_models(tracked_home) == []
        assert "_lock" not in known_models(tracked_home)
        assert tracking_uri(tracked_home).startswith("sqlite")
