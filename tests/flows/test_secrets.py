"""Passwords and signatures in a corpus's URL are neither shown nor stored anywhere."""

import asyncio
import threading
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

from flows.operations.flow_runner import run_flow
from flows.pipeline_flow import pipeline_flow, prepare_flow
from rnnlm.config import CorpusConfig
from rnnlm.reports.pipeline_page import pipeline_summary
from rnnlm.storage.home import Home
from tests.conftest import toy_pipeline_config, write_toy_corpus
from tests.rnnlm.corpora.faulty_server import FaultyServer
from tests.rnnlm.corpora.packed_files import tar_of

SECRETS = ("hunter2", "s3cr3tsignature")


def stored_in_prefect() -> str:
    """Return the names, parameters, log lines and artifacts of all flow runs, as one text."""

    async def read() -> str:
        async with get_client() as client:
            found = [
                *await client.read_flow_runs(),
                *await client.read_task_runs(),
                *await client.read_logs(),
                *await client.read_artifacts(),
            ]
            return "\n".join(each.model_dump_json() for each in found)

    return asyncio.run(read())


@pytest.mark.slow
def test_no_file_of_a_home_holds_an_address_secret(
    prefect_server: None, tracked_home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_toy_corpus(tmp_path / "toy")
    with FaultyServer() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        server.body = tar_of({path.name: path.read_bytes() for path in folder.iterdir()})
        address = server.url.replace("//", f"//user:{SECRETS[0]}@") + f".tar?name=toy&sig={SECRETS[1]}"
        config = toy_pipeline_config(folder).model_copy(update={"corpus": CorpusConfig(source=address)})
        record = run_flow(tracked_home, pipeline_flow, config=config)
        run_flow(tracked_home, prepare_flow, config)
        server.shutdown()
    assert [path for path, _ in server.asked] == [f"/text.tar?name=toy&sig={SECRETS[1]}"] * 2
    shown = pipeline_summary(record) + caplog.text + stored_in_prefect()
    assert "/text.tar?name=***&sig=***" in shown
    for secret in SECRETS:
        assert secret not in shown
        kept = [
            path for path in tracked_home.root.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
        ]
        assert kept == []
