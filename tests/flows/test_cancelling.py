"""A cancelled flow run keeps its results.

To cancel it, Prefect sends SIGTERM to the run's process, and raises an exception in the task.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.sequences.corpus_shards import Shard, ShardMaker
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

ROOT = Path(__file__).resolve().parents[2]
SETUP = """
import sys
from rnnlm.storage.home import find_home
from flows.operations.prefect_environment import set_environment
set_environment(find_home())
from flows.operations.flow_runner import home_server
from prefect import flow

def run(task, *kinds):
    @flow
    def cancelled() -> None:
        try:
            task(*(kind.model_validate_json(line) for kind, line in zip(kinds, sys.stdin)))
        except BaseException as error:
            print("the task raised", type(error).__name__, flush=True)
            raise

    with home_server(find_home()):
        cancelled()
"""
TOKENIZING = """
from rnnlm.config import SequencesConfig
from rnnlm.storage.records import CorpusRecord, TokenizerRecord
from tasks.sequences import tokenize_corpus

run(tokenize_corpus, CorpusRecord, TokenizerRecord, SequencesConfig)
"""


def cancel(folder: Path, code: str, arguments: list[BaseModel], may_stop: Callable[[], bool]) -> str:
    """Run a task in a flow in a separate process, send SIGTERM once `may_stop` returns True, and return the output."""
    (folder / "requests").write_text("".join(argument.model_dump_json() + "\n" for argument in arguments))
    with (folder / "requests").open() as requests, (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", SETUP + code],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=requests,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        while process.poll() is None and not may_stop():
            time.sleep(0.01)
        for _ in range(60):
            # The signal is repeated, because Python drops an exception that Prefect's handler raises while an object is
            # finalized.
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
                break
        assert process.wait(timeout=120) != 0, (folder / "said").read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            # Kill the whole group, because the temporary Prefect server outlives the process.
            os.killpg(process.pid, signal.SIGKILL)
    return (folder / "said").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_shards_that_were_finished_before_a_cancellation_are_not_made_again(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"line {number} of a text that is tokenized in shards .\n" for number in range(1_500_000)))
    corpus = obtain_corpus(home, CorpusConfig(source=str(text)))
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word", vocabulary_size=1_000))
    config = SequencesConfig(processes=processes)

    def finished() -> set[str]:
        return {path.name for path in home.shards.glob("*/*/*.documents.parquet") if path.name[0] != "."}

    told = cancel(tmp_path, TOKENIZING, [corpus, tokenizer, config], lambda: len(finished()) > 2)
    assert "the task raised TerminationSignal" in told
    before, made = finished(), []
    assert 2 < len(before) < 20  # The task was interrupted. Without an interruption, it writes about 38 files.

    def make(maker: ShardMaker, shard: Shard) -> int:
        made.append(shard.documents.name)
        return tokenize(maker, shard)

    tokenize = ShardMaker.__call__
    monkeypatch.setattr(ShardMaker, "__call__", make)
    dataset = store_sequences(home, corpus, tokenizer, config)
    assert len(made) == len(set(made)) > 15
    assert not before & set(made)
    assert check_dataset(dataset)
    assert sum(dataset.sequence_counts.values()) == 1_500_000
