"""The feed from a dataset file: the same batches for any number of workers, on any machine."""

import subprocess
import sys

import pytest
import torch

from rnnlm.records import DatasetRecord
from rnnlm.sequences import batching
from rnnlm.sequences.batching import Batch
from rnnlm.sequences.feeding import TrainingBatches, training_loader
from rnnlm.sequences.reading import StoredSplit


def order(batches: list[Batch]) -> list[list[list[int]]]:
    return [batch.target_ids.tolist() for batch in batches]


@pytest.mark.parametrize(("workers", "first_batch"), [(1, 0), (2, 50)])
def test_workers_change_no_batch(toy_dataset: DatasetRecord, workers: int, first_batch: int) -> None:
    batches = TrainingBatches(StoredSplit(toy_dataset, "train"), "sentence", 7, 35, seed=5, epochs=range(2))
    alone = order(list(training_loader(batches, 0)))
    assert len(alone) == 2 * batches.batches_an_epoch == 2 * 43  # 300 rows
    batches.first_batch = first_batch
    assert order(list(training_loader(batches, workers))) == alone[first_batch:]


def test_reading_touches_no_global_generator(toy_dataset: DatasetRecord) -> None:
    """A resumed run makes its loader once more: it would draw once more, too."""
    before = torch.get_rng_state()
    batches = TrainingBatches(StoredSplit(toy_dataset, "train"), "sentence", 7, 35, seed=5)
    assert len(list(training_loader(batches, 0))) == 43
    assert torch.equal(torch.get_rng_state(), before)


FORKING_SCRIPT = """
import sys
from torch.utils.data import DataLoader
from rnnlm.records import DatasetRecord
from rnnlm.sequences.feeding import TrainingBatches
from rnnlm.sequences.reading import StoredSplit

dataset = DatasetRecord.model_validate_json(sys.stdin.read())
batches = TrainingBatches(StoredSplit(dataset, "train"), "sentence", 7, 35, seed=5)
alone = [batch.target_ids.tolist() for batch in batches]
forked = [batch.target_ids.tolist() for batch in DataLoader(batches, batch_size=None, num_workers=2)]
print(len(alone), forked == alone)
"""


def test_a_loader_of_the_user_s_own_forks_its_workers(toy_dataset: DatasetRecord) -> None:
    # In a process of its own: this one holds the threads of every library that the suite uses.
    command = [sys.executable, "-c", FORKING_SCRIPT]
    ended = subprocess.run(command, input=toy_dataset.model_dump_json(), capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "43 True\n"), ended.stderr


def test_the_file_is_read_as_rows_in_memory_are(toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "CHUNK_ROWS", 16)
    monkeypatch.setattr(batching, "WINDOW_CHUNKS", 4)
    stored = StoredSplit(toy_dataset, "train")
    memory = stored.read(0, len(stored))
    assert (len(stored), stored.predicted_count) == (len(memory), memory.predicted_count)
    from_file = TrainingBatches(stored, "sentence", 7, 35, seed=5)
    from_memory = TrainingBatches(memory, "sentence", 7, 35, seed=5)
    assert order(list(from_file)) == order(list(from_memory))
    stored.close()
