"""Runs that begin within the same minute have different names."""

import threading

import pytest
from prefect.client.orchestration import get_client

from flows.operations.flow_start import rnnlm_flow
from rnnlm.storage.home import Home


@rnnlm_flow("naming")
def naming_flow() -> None: ...


@pytest.mark.long
def test_runs_of_one_minute_have_different_names(home: Home, prefect_server: None) -> None:
    threads = [threading.Thread(target=naming_flow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with get_client(sync_client=True) as client:
        names = [run.name for run in client.read_flow_runs() if run.name.startswith("naming · ")]
    assert len(names) == 4
    assert len(set(names)) == 4
    # All in the same minute, or in two if the clock has just moved on.
    assert 2 <= sum(name.endswith(")") for name in names) <= 3
