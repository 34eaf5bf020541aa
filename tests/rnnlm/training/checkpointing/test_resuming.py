"""Training that is killed at any moment and resumed gives the same weights as uninterrupted training."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from rnnlm.config import PipelineConfig
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, TokenizerRecord
from rnnlm.storage.stages import is_complete
from rnnlm.training.training_run import name_run
from tests.configs import changed
from tests.rnnlm.training.trainer import Trainer


def configured(config: PipelineConfig, settings: dict[str, Any] | None = None) -> PipelineConfig:
    """Return a configuration that writes checkpoints every 0.02 seconds, so that many kills interrupt the writing."""
    frequent = {
        "training.epochs": 12,  # Each epoch has 10 steps.
        "training.validation.evaluations": 4,
        "training.loss.sampled_classes": 8,
        "training.window_length": 5,
        "training.checkpoints.every_seconds": 0.02,
    }
    return changed(config, frequent | (settings or {}))


@pytest.fixture
def stream_dataset(
    home: Home, toy_config: PipelineConfig, toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord
) -> DatasetRecord:
    sequences = toy_config.sequences.model_copy(update={"mode": "stream", "block_length": 16})
    return store_sequences(home, toy_corpus, toy_tokenizer, sequences)


def result(folder: Path) -> tuple[bytes, list[dict[str, Any]]]:
    """Return a run's weights, and its history without the values that depend on the clock."""
    assert is_complete(folder)
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    for line in lines:
        del line["time_milliseconds"]
        line["metrics"].pop("tokens_per_second", None)
    return (folder / "model" / "model.safetensors").read_bytes(), lines


def alive(child: int) -> bool:
    """Return False if the child process has ended, even if no process has waited for it."""
    try:
        return psutil.Process(child).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_while_it_writes(child: int, checkpoints: Path, after: int) -> None:
    """Send SIGKILL while a checkpoint is incomplete, after `after` other checkpoints have been started."""
    begun: set[str] = set()
    while alive(child) and len(begun) <= after:
        begun |= {path.name for path in checkpoints.glob(".*.partial")}
        time.sleep(0.0005)  # The pause is short compared with the 10 ms in which a checkpoint is written.
    os.kill(child, signal.SIGKILL)


def kill_at_random(child: int, checkpoints: Path, seconds: float) -> None:
    """Kill the process `seconds` after it has written its next checkpoint."""
    before = {path.name for path in checkpoints.glob("step-*")}
    while alive(child) and {path.name for path in checkpoints.glob("step-*")} <= before:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)


def train_with_kills(
    trainer: Trainer, home: Home, config: PipelineConfig, dataset: DatasetRecord, kills: int, seed: int
) -> None:
    """Start the run repeatedly, and kill it `kills` times.

    Every other kill happens while a checkpoint is written.
    """
    draw = random.Random(seed)
    folder = home.runs / name_run(config, dataset)
    shutil.rmtree(folder)
    torn = 0
    for turn in range(kills):
        child = trainer.start(home, config, dataset)
        if turn % 2:
            kill_while_it_writes(child, folder / "checkpoints", draw.randrange(3))
        else:
            kill_at_random(child, folder / "checkpoints", draw.uniform(0.0, 0.2))
        code = trainer.wait()
        assert code == -signal.SIGKILL, f"ended ({code}) before kill {turn + 1}: {trainer.log.read_text()}"
        torn += bool(list(folder.glob("checkpoints/.*.partial")))
    assert torn, "no checkpoint was being written at any kill"
    assert "resumes from step" in trainer.run(home, config, dataset)


def check_bit_identity(
    trainer: Trainer, home: Home, config: PipelineConfig, dataset: DatasetRecord, kills: int, seed: int
) -> None:
    trainer.run(home, config, dataset)
    folder = home.runs / name_run(config, dataset)
    weights, history = result(folder)
    train_with_kills(trainer, home, config, dataset, kills, seed)
    again, history_again = result(folder)
    assert again == weights
    assert history_again == history  # The history of the killed run omits and repeats no step.


@pytest.mark.long
def test_three_kills_change_no_bit(
    home: Home, trainer: Trainer, toy_config: PipelineConfig, stream_dataset: DatasetRecord
) -> None:
    check_bit_identity(trainer, home, configured(toy_config), stream_dataset, kills=3, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["exact", "sampled"])
@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_twenty_kills_change_no_bit(
    home: Home,
    trainer: Trainer,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    stream_dataset: DatasetRecord,
    mode: str,
    loss: str,
) -> None:
    settings = {"training.loss.kind": loss, "training.epochs": 80, "training.validation.evaluations": 40}
    dataset = toy_dataset if mode == "sentence" else stream_dataset
    check_bit_identity(trainer, home, configured(toy_config, settings), dataset, kills=20, seed=3)
