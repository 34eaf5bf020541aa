"""One at a time on a SQLite store, also between processes; the lock ends with its holder."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rnnlm.home import Home
from rnnlm.registry.model_names import lock_name
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.registry.ticket_queue import ensure_registered_model
from rnnlm.tracking.mlflow_store import embedded_uri, reaching_mlflow

HOLDER = """
import time
from rnnlm.home import find_home
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.tracking.mlflow_store import reaching_mlflow

with reaching_mlflow(find_home()) as client, registry_lock(find_home(), client, "contest"):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def lock(home: Home) -> Iterator[Callable[[], None]]:
    with reaching_mlflow(home) as client, registry_lock(home, client, "contest") as confirm_lock:
        yield confirm_lock


@contextmanager
def another_process(home: Home, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """One that holds the lock."""
    variables = os.environ | {"RNNLM_HOME": str(home.root)} | environment
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, env=variables) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_only_one_holds_it_at_a_time_and_all_get_their_turn(tracked_home: Home) -> None:
    inside: list[str] = []

    def take(name: str) -> None:
        with lock(tracked_home):
            inside.append(name)
            time.sleep(0.1)
            inside.append(name)

    threads = [threading.Thread(target=take, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(inside) == sorted("aabbcc")
    assert inside[::2] == inside[1::2]


@pytest.mark.long
def test_who_was_killed_has_lost_it_at_once(tracked_home: Home) -> None:
    got = threading.Event()

    def wait() -> None:
        with lock(tracked_home):
            got.set()

    with another_process(tracked_home) as holder:
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert not got.wait(1.0)
        start = time.monotonic()
        holder.send_signal(signal.SIGKILL)
        waiter.join(timeout=60)
        assert got.is_set()
        assert time.monotonic() - start < 30  # a ticket in the registry would stand for 60 s


@pytest.mark.long
def test_another_home_on_the_same_database_waits_too(
    tracked_home: Home, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Home(tmp_path_factory.mktemp("other"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(tracked_home))
    got = threading.Event()

    def wait() -> None:
        with lock(other):
            got.set()

    with lock(tracked_home):
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert not got.wait(1.0)
    waiter.join(timeout=60)
    assert got.is_set()


def test_a_failure_inside_gives_it_back(tracked_home: Home) -> None:
    with pytest.raises(ValueError, match="mine"), lock(tracked_home):
        raise ValueError("mine")
    with lock(tracked_home) as confirm_lock:
        confirm_lock()


def test_nothing_of_it_is_among_the_models(tracked_home: Home) -> None:
    with reaching_mlflow(tracked_home) as client:
        ensure_registered_model(client, lock_name("contest"))  # as an earlier version left it
        with lock(tracked_home):
            assert client.search_registered_models() == []
