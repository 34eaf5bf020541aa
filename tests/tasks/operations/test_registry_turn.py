"""Prefect's server allows only one process at a time to change a shared registry."""

import pytest

from rnnlm.storage.home import Home
from tasks.operations.registry_turn import registry_turn
from tests.lock_assertions import assert_one_at_a_time


@pytest.mark.long
@pytest.mark.usefixtures("prefect_server")
def test_changes_of_a_shared_registry_follow_one_another(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # A registry at an http address is shared. No request is sent to this address.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert_one_at_a_time(lambda: registry_turn(home))


def test_a_registry_of_one_machine_needs_no_turn(tracked_home: Home) -> None:
    with registry_turn(tracked_home), registry_turn(tracked_home):
        pass
