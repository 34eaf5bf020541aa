"""Runs of several processes can be interrupted, continued with fewer processes, and spread over two nodes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import TrainingError
from rnnlm.extensions.distributed.join import join
from rnnlm.runtime.ports import free_port
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, TokenizerRecord
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import UntrackedRun, untracked

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def stream(
    home: Home, toy_config: PipelineConfig, toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord
) -> DatasetRecord:
    sequences = toy_config.sequences.model_copy(update={"mode": "stream"})
    return store_sequences(home, toy_corpus, toy_tokenizer, sequences)


class InterruptingError(BaseException): ...


class Interrupting(UntrackedRun):
    """A tracker that sends SIGTERM to this process when there is a new checkpoint."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.before = self.checkpoints()

    def checkpoints(self) -> set[Path]:
        return set(self.home.runs.glob("*/checkpoints/step-*/COMPLETE"))

    def __call__(self) -> None:
        if self.checkpoints() - self.before:
            os.kill(os.getpid(), signal.SIGTERM)


def interrupt(home: Home, config: PipelineConfig, dataset: DatasetRecord) -> int:
    """Train until SIGTERM arrives at the next checkpoint, and return the last stored step."""

    def interrupted(number: int, frame: FrameType | None) -> None:
        raise InterruptingError

    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        with pytest.raises(InterruptingError):
            run_training(home, config, dataset, Interrupting(home).open)
    finally:
        signal.signal(signal.SIGTERM, before)
    (folder,) = home.runs.glob("*/checkpoints")
    return max(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


@pytest.mark.slow
def test_an_interrupted_run_of_two_processes_ends_bit_identical(
    home: Home, toy_config: PipelineConfig, stream: DatasetRecord, tmp_path: Path
) -> None:
    """An interrupted stream run of two processes ends bit-identical, because each lane's state is restored."""
    settings = {
        "training.epochs": 12,
        "training.batch_size": 6,
        "training.accumulation": 3,
        "training.window_length": 5,
        "training.distributed.processes": 2,
        "training.checkpoints.every_seconds": 0.2,
    }
    config = changed(toy_config, settings)
    last = interrupt(home, config, stream)
    run = run_training(home, config, stream, untracked)
    weights = (run.model_folder / "model.safetensors").read_bytes()
    history = (run.folder / "history.jsonl").read_text().splitlines()
    assert 0 < last < 12 * 2_000 // (6 * 5)
    assert len({line.split('"metrics"')[0].split('"time_milliseconds"')[0] for line in history}) == len(history)
    again = run_training(home, config, stream, untracked, force=True)
    assert (again.model_folder / "model.safetensors").read_bytes() == weights
    assert again.best_validation_perplexity == run.best_validation_perplexity


@pytest.mark.slow
def test_two_nodes_train_as_two_processes_do(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    """Two nodes give the same results as two processes on one node. Both nodes are on this machine."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "flows.command_line", "join", address]
    there = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"})
    config = changed(toy_config, {"training.distributed.processes": 2})
    one = run_training(home, config, toy_dataset, untracked)
    apart = changed(config, {"training.distributed.nodes": 2, "training.distributed.rendezvous": address})
    two = run_training(home, apart, toy_dataset, untracked, force=True)
    assert one.run_id == two.run_id  # The run's id does not depend on the machines of its processes.
    assert two.best_validation_perplexity == one.best_validation_perplexity
    assert there.wait(60) == 0


def test_an_address_where_nobody_listens_is_refused(home: Home) -> None:
    with pytest.raises(TrainingError, match="127.0.0.1:9: no process listens there after 0 s; start the first node"):
        join(home, "127.0.0.1:9", timeout_seconds=0)
