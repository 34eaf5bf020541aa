"""The batches of a dataset file are the same with any number of workers and on any machine."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from rnnlm.sequences import batches
from rnnlm.sequences.batches import Batch, RowSource
from rnnlm.sequences.data_feed import TrainingBatches, training_loader
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode, StreamCutter
from rnnlm.storage.records import DatasetRecord


def order(batches: list[Batch]) -> list[list[list[int]]]:
    return [batch.target_ids.tolist() for batch in batches]


@pytest.mark.parametrize(("workers", "first_batch"), [(1, 0), pytest.param(2, 50, marks=pytest.mark.slow)])
@pytest.mark.long
def test_workers_change_no_batch(toy_dataset: DatasetRecord, workers: int, first_batch: int) -> None:
    batches = TrainingBatches(StoredSplit(toy_dataset, "train"), "sentence", 7, 35, seed=5, epochs=range(2))
    alone = order(list(training_loader(batches, 0)))
    # 300 rows in batches of 7 are 43 batches in each of the 2 epochs.
    assert len(alone) == 2 * batches.batches_an_epoch == 2 * 43
    batches.first_batch = first_batch
    assert order(list(training_loader(batches, workers))) == alone[first_batch:]


def test_reading_touches_no_global_generator(toy_dataset: DatasetRecord) -> None:
    """Reading batches does not change the global random generators.

    A resumed run creates its loader again. If the loader drew from a global generator, the resumed run would differ.
    """
    before = torch.get_rng_state()
    batches = TrainingBatches(StoredSplit(toy_dataset, "train"), "sentence", 7, 35, seed=5)
    assert len(list(training_loader(batches, 0))) == 43
    assert torch.equal(torch.get_rng_state(), before)


FORKING_SCRIPT = """
import sys
from torch.utils.data import DataLoader
from rnnlm.storage.records import DatasetRecord
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.dataset_reader import StoredSplit

dataset = DatasetRecord.model_validate_json(sys.stdin.read())
batches = TrainingBatches(StoredSplit(dataset, "train"), "sentence", 7, 35, seed=5)
alone = [batch.target_ids.tolist() for batch in batches]
forked = [batch.target_ids.tolist() for batch in DataLoader(batches, batch_size=None, num_workers=2)]
print(len(alone), forked == alone)
"""


@pytest.mark.slow
def test_a_loader_of_the_user_s_own_forks_its_workers(toy_dataset: DatasetRecord) -> None:
    # The threads are counted in a separate process, because libraries of other tests have threads in this process.
    command = [sys.executable, "-c", FORKING_SCRIPT]
    ended = subprocess.run(command, input=toy_dataset.model_dump_json(), capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "43 True\n"), ended.stderr


@pytest.mark.long
@pytest.mark.parametrize("epoch_and_rank", [(0, 0, 1), (1, 0, 1), (0, 1, 3)], ids=str)
@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_text_on_a_device_gives_the_batches_that_are_read(
    toy_dataset: DatasetRecord,
    mode: Mode,
    epoch_and_rank: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "CHUNK_ROWS", 16)
    monkeypatch.setattr(batches, "POOL_CHUNKS", 4)
    monkeypatch.setattr(batches, "BUCKET_BATCHES", 3)
    epoch, rank, world_size = epoch_and_rank
    split: RowSource = StoredSplit(toy_dataset, "train")
    if mode == "stream":
        # 1,200 predicted tokens in blocks of 20 are 60 blocks.
        split = StreamCutter(20).add(np.arange(10, 1_211, dtype=np.int32))
    for first_batch in (0, 1, 20):
        read, resident = (
            list(TrainingBatches(split, mode, 7, 5, 3, range(epoch, epoch + 2), rank, world_size, first_batch, device))
            for device in (None, torch.device("cpu"))
        )
        assert len(read) == len(resident) > 40
        for one, other in zip(read, resident, strict=True):
            assert torch.equal(one.input_ids, other.input_ids)
            assert torch.equal(one.target_ids, other.target_ids)
            assert other.input_ids.dtype == torch.int64
            assert (one.carries_state, one.predicted_tokens) == (other.carries_state, other.predicted_tokens)
