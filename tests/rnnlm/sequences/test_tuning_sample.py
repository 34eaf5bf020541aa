"""A tuning sample is spread over the split, has about the requested size, and can be read like a split."""

import numpy as np
import pytest

from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.segmentation import StreamCutter, TokenRows, join_rows, rows_from_lists
from rnnlm.sequences.tuning_sample import RowSample


@pytest.fixture
def rows() -> TokenRows:
    """Return 1,000 rows with 1 to 9 predicted tokens each. All tokens of row i are the number 4 + i."""
    return rows_from_lists([[2, *[4 + row] * (1 + row % 9)] for row in range(1_000)])


def test_a_sample_is_spread_evenly_and_as_large_as_asked(rows: TokenRows) -> None:
    sample = RowSample(rows, 500)
    numbers = sample.read(0, len(sample)).token_ids
    found = np.unique(numbers[numbers > 3]) - 4
    assert len(found) == len(sample) == 101
    assert sample.predicted_count == sum(1 + int(row) % 9 for row in found) == pytest.approx(500, rel=0.05)
    assert np.histogram(found, bins=4, range=(0, 1_000))[0].tolist() == pytest.approx([25] * 4, abs=1)
    assert found[-1] == 999


def test_every_token_of_a_stream_sample_is_predicted_once() -> None:
    cutter = StreamCutter(block_length=8)
    stream = join_rows([cutter.add(np.arange(4, 4_004, dtype=np.int32)), cutter.finish()])
    sample: RowSource = RowSample(stream, 700)
    targets = [token for batch in evaluation_batches(sample, "stream", 1) for token in batch.target_ids[0].tolist()]
    assert len(targets) == len(set(targets)) == sample.predicted_count
    assert targets[-1] == 4_003
    assert targets == sorted(targets)
