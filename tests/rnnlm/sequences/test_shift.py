"""The library shifts targets by one token, as in the stored columns. Every kind of batch uses this shift."""

import itertools

import pytest
import torch

from rnnlm.sequences.batches import ordered_batches
from rnnlm.sequences.dataset_reader import StoredSplit, connect
from rnnlm.sequences.gpu_resident import resident_text, shuffled_resident_batches
from rnnlm.sequences.shift import shifted, shifted_rows
from rnnlm.storage.records import SPLITS, DatasetRecord

COLUMNS = "select input_ids, target_ids from shifted_sequences where split = ? order by sequence_id"


def stored_columns(dataset: DatasetRecord, split: str) -> list[tuple[list[int], list[int]]]:
    """Return `input_ids` and `target_ids` of every row from an SQL query."""
    with connect(dataset) as connection:
        return [(inputs, targets) for inputs, targets in connection.execute(COLUMNS, [split]).fetchall()]


@pytest.mark.long
def test_the_shift_is_that_of_the_stored_columns(toy_dataset: DatasetRecord) -> None:
    for split in SPLITS:
        source = StoredSplit(toy_dataset, split)
        columns = stored_columns(toy_dataset, split)
        assert len(columns) == len(source) > 0
        for index, (inputs, targets) in enumerate(columns):
            one_row = shifted(source.read(index, index + 1).token_ids)
            assert [ids.tolist() for ids in one_row] == [inputs, targets]
        all_inputs, all_targets = shifted_rows(source.read(0, len(source)))
        assert all_inputs.tolist() == list(itertools.chain.from_iterable(inputs for inputs, _ in columns))
        assert all_targets.tolist() == list(itertools.chain.from_iterable(targets for _, targets in columns))
        source.close()


def test_batches_hold_the_stored_columns_and_mask_the_rest(toy_dataset: DatasetRecord) -> None:
    source = StoredSplit(toy_dataset, "valid")
    resident = shuffled_resident_batches(
        resident_text(source, "sentence", torch.device("cpu")), source, 4, seed=0, epoch=0
    )
    expected = sorted(stored_columns(toy_dataset, "valid"))
    for batches in (ordered_batches(source, 4), resident):
        found = []
        for batch in batches:
            for inputs, targets, mask in zip(batch.input_ids, batch.target_ids, batch.mask, strict=True):
                found.append((inputs[mask].tolist(), targets[mask].tolist()))
                assert not inputs[~mask].any()
                assert not targets[~mask].any()
        assert sorted(found) == expected
    source.close()
