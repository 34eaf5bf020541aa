"""One change of a shared registry at a time, by Prefect's own server."""

import threading
import time

import pytest

from rnnlm.home import Home
from tasks.operations.registry_turn import registry_turn

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.long
def test_changes_of_a_shared_registry_follow_one_another(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # a server, which nobody asks here
    inside: list[str] = []

    def take(name: str) -> None:
        with registry_turn(home):
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


def test_a_registry_of_one_machine_needs_no_turn(tracked_home: Home) -> None:
    with registry_turn(tracked_home), registry_turn(tracked_home):
        pass
