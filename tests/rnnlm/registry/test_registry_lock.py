"""Only one process or thread of a machine can hold the lock of a registered model.

If a process is killed, its lock is released.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rnnlm.registry.registry_lock import registry_lock
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import embedded_uri
from tests.lock_assertions import assert_one_at_a_time

HOLDER = """
import time
from rnnlm.storage.home import find_home
from rnnlm.registry.registry_lock import registry_lock

with registry_lock(find_home(), "contest"):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def another_process(home: Home) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that holds the lock."""
    variables = os.environ | {"RNNLM_HOME": str(home.root)}
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, env=variables) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_only_one_holds_it_at_a_time_and_all_get_their_turn(tracked_home: Home) -> None:
    assert_one_at_a_time(lambda: registry_lock(tracked_home, "contest"))


@contextmanager
def a_waiter(home: Home) -> Iterator[threading.Event]:
    """Yield an event that a thread sets when it has acquired the lock."""
    had = threading.Event()

    def wait() -> None:
        with registry_lock(home, "contest"):
            had.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not had.wait(1.0)
    yield had
    waiter.join(timeout=60)


@pytest.mark.long
def test_the_lock_of_a_killed_process_is_free_at_once(tracked_home: Home) -> None:
    with another_process(tracked_home) as holder, a_waiter(tracked_home) as had:
        holder.send_signal(signal.SIGKILL)
        assert had.wait(30)


@pytest.mark.long
def test_another_home_on_the_same_database_waits_too(
    tracked_home: Home, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(tracked_home))
    with contextlib.ExitStack() as stack:
        stack.enter_context(registry_lock(tracked_home, "contest"))
        with a_waiter(Home(tmp_path_factory.mktemp("other"))) as had:
            stack.close()
            assert had.wait(60)
