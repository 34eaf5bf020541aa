"""The `prune` deployment keeps all files that running flow runs may read. It shows a table in Prefect."""

import os
import time

import pytest

from flows.operations.flow_runner import run_flow
from flows.operations.run_locks import lock_folder, oldest_living_run
from flows.upkeep_flow import prune_flow
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.storage.home import Home
from tests.rnnlm.extensions.upkeep.registry_histories import write_folder

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.long
def test_the_flow_prunes_and_publishes_a_table(home: Home) -> None:
    from prefect.client.orchestration import get_client

    corpus = write_folder(home.corpora / ("c" * 16), 3, corpus={})
    pruned = run_flow(home, prune_flow, RetentionConfig())
    assert [item.name for item in pruned.removed] == [corpus.name]
    with get_client(sync_client=True) as client:
        pages = [page for page in client.read_artifacts() if page.key == "prune"]
    assert "corpus" in str(pages[0].data)


@pytest.mark.long
def test_the_oldest_living_run_counts(home: Home) -> None:
    import fcntl

    def lock(name: str, age_seconds: float) -> int:
        path = lock_folder(home) / f"{name}.flow-run"
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.utime(path, (0, time.time() - age_seconds))
        return descriptor

    assert oldest_living_run(home) is None
    dead, living = lock("dead", 900_000), lock("living", 300_000)
    try:
        fcntl.flock(living, fcntl.LOCK_EX)
        started = oldest_living_run(home)
        assert started is not None
        assert time.time() - started == pytest.approx(300_000, abs=60)
        corpus = write_folder(home.corpora / ("c" * 16), 3, corpus={})
        run_flow(home, prune_flow, RetentionConfig())
        assert corpus.exists()
    finally:
        os.close(dead)
        os.close(living)
    run_flow(home, prune_flow, RetentionConfig())
    assert not corpus.exists()
