"""One at a time on one machine, also between processes; the lock ends with its holder."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rnnlm.home import Home
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.tracking.mlflow_store import embedded_uri
from tests.exclusion import assert_one_at_a_time

HOLDER = """
import time
from rnnlm.home import find_home
from rnnlm.registry.registry_lock import registry_lock

with registry_lock(find_home(), "contest"):
    print("held", flush=True)
    time.sleep(600)
"""


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
    assert_one_at_a_time(lambda: registry_lock(tracked_home, "contest"))


@pytest.mark.long
def test_who_was_killed_has_lost_it_at_once(tracked_home: Home) -> None:
    got = threading.Event()

    def wait() -> None:
        with registry_lock(tracked_home, "contest"):
            got.set()

    with another_process(tracked_home) as holder:
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert not got.wait(1.0)
        start = time.monotonic()
        holder.send_signal(signal.SIGKILL)
        waiter.join(timeout=60)
        assert got.is_set()
        assert time.monotonic() - start < 30


@pytest.mark.long
def test_another_home_on_the_same_database_waits_too(
    tracked_home: Home, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Home(tmp_path_factory.mktemp("other"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(tracked_home))
    got = threading.Event()

    def wait() -> None:
        with registry_lock(other, "contest"):
            got.set()

    with registry_lock(tracked_home, "contest"):
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert not got.wait(1.0)
    waiter.join(timeout=60)
    assert got.is_set()


def test_a_failure_inside_gives_it_back(tracked_home: Home) -> None:
    with pytest.raises(ValueError, match="mine"), registry_lock(tracked_home, "contest"):
        raise ValueError("mine")
    with registry_lock(tracked_home, "contest"):
        pass
