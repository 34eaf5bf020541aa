"""Two small experiments show that training works: one model overfits one batch, and another model learns to count."""

import math
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.corpora import counting_corpus
from rnnlm.extensions.probes.probe_records import PositionsRecord
from rnnlm.extensions.probes.run_probes import measure_positions
from rnnlm.extensions.probes.run_probes_config import ProbesConfig
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.training.history import read_series
from rnnlm.training.training_run import run_training
from tests.conftest import untracked


def trained(home: Home, config: PipelineConfig) -> tuple[DatasetRecord, RunRecord]:
    dataset = prepare_dataset(home, config)
    return dataset, run_training(home, config, dataset, untracked)


@pytest.mark.long
def test_a_model_overfits_one_batch(home: Home) -> None:
    config = build_config("overfit", ["training.validation.evaluations=1", "training.device=cpu"])
    dataset, run = trained(home, config)
    (batch,) = TrainingBatches(StoredSplit(dataset, "train"), dataset.mode, config.training.batch_size, 35, seed=0)
    assert batch.predicted_tokens == 145  # The text has 144 words and <eos>.
    beginnings = batch.input_ids[:, :2].tolist()
    # No two rows begin alike. Otherwise no model could have a loss of zero.
    assert len({tuple(row) for row in beginnings}) == len(beginnings)
    _, losses = read_series(RunFolder(run.folder).history, "train_loss_nats")
    assert losses[0] > 4
    assert losses[-1] < 0.01
    assert run.best_validation_perplexity < math.exp(0.01)  # The validation text is the training text.


def exact_at(record: PositionsRecord, position: int) -> float:
    value = record.exact[position - 1]
    assert value is not None
    return value


@pytest.mark.long
def test_counting_is_learned_and_exact_beyond_the_training_lengths(home: Home, tmp_path: Path) -> None:
    lines = {"train": (800, 2, 5), "valid": (40, 2, 5), "test": (10, 20, 20)}
    counting_corpus.write_counting(tmp_path / "thirty", largest=29, splits=lines)
    settings = [
        "training.epochs=20",
        "training.batch_size=32",
        "training.optimizer.learning_rate=1.0e-2",
        "model.hidden_size=48",
    ]
    config = build_config("counting", [*settings, "training.device=cpu"], corpus=str(tmp_path / "thirty"))
    record = measure_positions(home, *trained(home, config), ProbesConfig.of(config))
    assert record.longest_trained == 14  # The longest row has five numbers of two digits and four spaces.
    assert len(record.right) > 3 * record.longest_trained
    assert exact_at(record, record.longest_trained) == 1.0
    assert exact_at(record, 2 * record.longest_trained) == 1.0
    assert min(record.right[8:]) == 1.0


@pytest.mark.slow
def test_the_counting_preset_is_exact_on_long_lines(home: Home) -> None:
    config = build_config("counting", ["training.device=cpu"])
    record = measure_positions(home, *trained(home, config), ProbesConfig.of(config))
    assert len(record.right) > 15 * record.longest_trained
    assert min(value for value in record.exact if value is not None) > 0.95
