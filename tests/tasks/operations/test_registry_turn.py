"""One change of a shared registry at a time, by Prefect's own server."""

import pytest

from rnnlm.storage.home import Home
from tasks.operations.registry_turn import registry_turn
from tests.lock_assertions import assert_one_at_a_time


@pytest.mark.long
@pytest.mark.usefixtures("prefect_server")
def test_changes_of_a_shared_registry_follow_one_another(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # a server, which nobody asks here
    assert_one_at_a_time(lambda: registry_turn(home))


def test_a_registry_of_one_machine_needs_no_turn(tracked_home: Home) -> None:
    with registry_turn(tracked_home), registry_turn(tracked_home):
        pass
