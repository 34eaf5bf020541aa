"""Batches contain every token once, in an order that depends only on the seed and the epoch."""

import numpy as np
import pytest
import torch

from rnnlm.sequences import batches
from rnnlm.sequences.batches import Batch, RowSource
from rnnlm.sequences.data_feed import TrainingBatches, evaluation_batches
from rnnlm.sequences.segmentation import Mode, TokenRows, ends, rows_from_lists


def sentences(count: int = 57) -> TokenRows:
    """Return rows in which row i is <bos> followed by the token 10 + i, repeated i % 9 + 1 times."""
    rows = [[2] + [10 + index] * (index % 9 + 1) for index in range(count)]
    return TokenRows(np.concatenate(rows).astype(np.int32), ends(np.array([len(row) for row in rows])))


def stream(blocks: int = 5, length: int = 20) -> TokenRows:
    """Return the numbers 10, 11, 12, … in blocks that overlap by one token."""
    rows = [np.arange(10 + length * index, 10 + length * (index + 1) + 1) for index in range(blocks)]
    return TokenRows(np.concatenate(rows).astype(np.int32), np.arange(blocks + 1) * (length + 1))


def training_batches(
    source: RowSource,
    mode: Mode,
    batch_size: int,
    window_length: int,
    seed: int,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
) -> list[Batch]:
    epochs = range(epoch, epoch + 1)
    return list(TrainingBatches(source, mode, batch_size, window_length, seed, epochs, rank, world_size))


def targets(batches: list[Batch]) -> list[int]:
    return sorted(int(token) for batch in batches for token in batch.target_ids.flatten() if token != 0)


def expected(tokens: TokenRows) -> list[int]:
    return sorted(int(token) for row in range(len(tokens)) for token in tokens.read(row, row + 1).token_ids[1:])


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the sizes of chunks and windows, so that a small split has many of them."""
    monkeypatch.setattr(batches, "CHUNK_ROWS", 5)
    monkeypatch.setattr(batches, "POOL_CHUNKS", 3)
    monkeypatch.setattr(batches, "BUCKET_BATCHES", 2)
    monkeypatch.setattr(batches, "LANE_TOKENS", 40)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("count", [1, 4, 15, 57, 60, 123])
def test_many_windows_hold_every_row_once(count: int) -> None:
    tokens = sentences(count)
    batches = training_batches(tokens, "sentence", 4, 35, seed=3, epoch=1)
    assert targets(batches) == expected(tokens)
    # All batches except the last one have 4 rows.
    assert [batch.input_ids.shape[0] for batch in batches].count(4) == count // 4
    assert len(batches) == TrainingBatches(tokens, "sentence", 4, 35, 3).batches_an_epoch


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("mode", ["sentence", "stream"])
@pytest.mark.parametrize("world_size", [2, 3, 6])  # If there are 6 ranks, two of them have no row of a batch of 4 rows.
def test_ranks_share_every_batch_of_one_process(mode: Mode, world_size: int) -> None:
    tokens = sentences() if mode == "sentence" else stream()
    whole = training_batches(tokens, mode, 4, 7, seed=0, epoch=0)
    ranks = [training_batches(tokens, mode, 4, 7, 0, 0, rank, world_size) for rank in range(world_size)]
    for batch, shares in zip(whole, zip(*ranks, strict=True), strict=True):
        rows = [row.tolist() for share in shares for row in share.target_ids]
        assert sorted(rows) == sorted(batch.target_ids.tolist())
        assert sum(share.mask.sum() for share in shares) == batch.predicted_tokens
        for share in shares:
            assert (share.predicted_tokens, share.carries_state) == (batch.predicted_tokens, batch.carries_state)
            assert abs(len(share.input_ids) - len(batch.input_ids) / world_size) < 1
    assert mode == "stream" or targets([share for shares in ranks for share in shares]) == expected(tokens)


@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_ranks_share_the_validation_split_without_overlap_or_gap(mode: Mode) -> None:
    tokens = sentences() if mode == "sentence" else stream()
    shares = [list(evaluation_batches(tokens, mode, 4, rank, 3)) for rank in range(3)]
    assert targets([batch for share in shares for batch in share]) == targets(list(evaluation_batches(tokens, mode, 4)))
    assert [bool(share) for share in shares] == [True, mode == "sentence", mode == "sentence"]


@pytest.mark.parametrize(("rows", "count", "heights"), [(7, 3, [3, 2, 2]), (2, 5, [1, 1]), (0, 3, [0]), (4, 1, [4])])
def test_micro_batches_hold_the_rows_in_order(rows: int, count: int, heights: list[int]) -> None:
    whole = Batch(torch.arange(3 * rows).view(rows, 3), torch.arange(3 * rows).view(rows, 3) + 1, True, 3 * rows)
    parts = whole.micro_batches(count)
    assert [len(part.input_ids) for part in parts] == heights
    assert torch.equal(torch.cat([part.input_ids for part in parts]), whole.input_ids)
    assert torch.equal(torch.cat([part.target_ids for part in parts]), whole.target_ids)
    assert all(part.carries_state for part in parts)


def test_a_rank_outside_the_world_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 2"):
        TrainingBatches(sentences(), "sentence", 4, 7, 0, rank=2, world_size=2)


def test_the_order_depends_on_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = training_batches(sentences(), "sentence", 4, 35, seed, epoch)
        return [batch.target_ids[:, 0].tolist() for batch in batches]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)
    # These numbers are the same on every machine, because Philox is a counter-based generator.
    assert order(1, 0)[0] == [50, 59, 14, 32]


def test_lanes_continue_from_window_to_window() -> None:
    batches = training_batches(stream(), "stream", batch_size=3, window_length=7, seed=0, epoch=0)
    assert [batch.carries_state for batch in batches] == [False] + [True] * (len(batches) - 1)
    joined = torch.cat([batch.input_ids for batch in batches], dim=1)
    assert joined.shape[0] == 3
    assert (joined[:, 1:] - joined[:, :-1] == 1).all()
    assert all((batch.target_ids - batch.input_ids == 1).all() for batch in batches)
    seen = targets(batches)
    assert len(seen) == len(set(seen)) >= 100 - 7 - 3


def test_epochs_cut_the_stream_differently() -> None:
    firsts = {
        int(next(iter(training_batches(stream(), "stream", 3, 7, seed=0, epoch=epoch))).input_ids[0, 0])
        for epoch in range(8)
    }
    assert len(firsts) > 1


@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_evaluation_predicts_every_token_once(batch_size: int) -> None:
    tokens = sentences()
    assert targets(list(evaluation_batches(tokens, "sentence", batch_size))) == expected(tokens)
    lane = list(evaluation_batches(stream(blocks=30), "stream", batch_size))
    assert targets(lane) == list(range(11, 611))
    assert [batch.carries_state for batch in lane] == [False, True, True]
    assert all(batch.input_ids.shape[0] == 1 for batch in lane)


@pytest.mark.usefixtures("small_windows")
def test_windows_over_several_reads_are_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    several = training_batches(stream(30), "stream", 3, 7, seed=1, epoch=2)
    monkeypatch.setattr(batches, "LANE_TOKENS", 1 << 20)
    one = training_batches(stream(30), "stream", 3, 7, seed=1, epoch=2)
    assert [batch.input_ids.tolist() for batch in several] == [batch.input_ids.tolist() for batch in one]
    assert [batch.carries_state for batch in several] == [False] + [True] * (len(several) - 1)


class Counted(TokenRows):
    """Rows that record the ranges in which they are read."""

    ranges: list[tuple[int, int]] = []

    def read(self, first: int, last: int) -> TokenRows:
        self.ranges.append((first, last))
        return super().read(first, last)


@pytest.mark.long
@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("mode", ["sentence", "stream"])
@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 3), (2, 3)])
def test_a_feed_may_begin_at_any_batch(mode: Mode, rank: int, world_size: int) -> None:
    source = sentences(123) if mode == "sentence" else stream(blocks=12)
    settings = (source, mode, 4, 3, 5, range(3), rank, world_size)
    whole = [batch.target_ids.tolist() for batch in TrainingBatches(*settings)]
    carried = [batch.carries_state for batch in TrainingBatches(*settings)]
    for first in range(len(whole) + 2):
        rest = list(TrainingBatches(*settings, first_batch=first))
        assert [batch.target_ids.tolist() for batch in rest] == whole[first:]
        assert [batch.carries_state for batch in rest] == carried[first:]


@pytest.mark.usefixtures("small_windows")
def test_skipped_batches_are_not_read() -> None:
    rows = sentences(123)
    source = Counted(rows.token_ids, rows.offsets)
    source.ranges.clear()
    assert len(list(TrainingBatches(source, "sentence", 4, 35, 3, range(2), first_batch=2 * 31 - 1))) == 1
    # The only reads are the last window and the rows that earlier pools have not used.
    assert sum(last - first for first, last in source.ranges) <= 3 * 5 + 3


def test_a_batch_of_long_rows_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK_TOKENS", 20)
    rows = rows_from_lists([[0] * length for length in (1, 1, 2, 2, 3, 9, 15, 40)])
    found = [group.tolist() for group in batches.length_groups(np.arange(len(rows)), rows.lengths, 4)]
    assert found == [[0, 1, 2, 3], [4, 5], [6], [7]]
