"""Batches hold every token once, in an order that the seed decides."""

import numpy as np
import pytest
import torch

from rnnlm.sequences.batching import (
    Batch,
    count_training_batches,
    evaluation_batches,
    rejoined,
    training_batches,
)
from rnnlm.sequences.reading import SplitTokens


def sentences(count: int = 57) -> SplitTokens:
    """Row i is <bos>, then i % 9 + 1 times the token 10 + i."""
    rows = [[2] + [10 + index] * (index % 9 + 1) for index in range(count)]
    offsets = np.cumsum([0] + [len(row) for row in rows])
    return SplitTokens(np.concatenate(rows).astype(np.int32), offsets)


def stream(blocks: int = 5, length: int = 20) -> SplitTokens:
    """The numbers 10, 11, 12, … in blocks that overlap by one."""
    rows = [np.arange(10 + length * index, 10 + length * (index + 1) + 1) for index in range(blocks)]
    return SplitTokens(np.concatenate(rows).astype(np.int32), np.arange(blocks + 1) * (length + 1))


def targets(batches: list[Batch]) -> list[int]:
    return sorted(int(token) for batch in batches for token in batch.target_ids.flatten() if token != 0)


def expected(tokens: SplitTokens) -> list[int]:
    return sorted(
        int(token)
        for start, end in zip(tokens.offsets, tokens.offsets[1:], strict=False)
        for token in tokens.token_ids[start + 1 : end]
    )


def test_an_epoch_of_sentences_predicts_every_token_once() -> None:
    tokens = sentences()
    batches = list(training_batches(tokens, "sentence", 4, 35, seed=0, epoch=0))
    assert targets(batches) == expected(tokens)
    assert sum(batch.predicted_tokens for batch in batches) == len(expected(tokens))
    assert len(batches) == count_training_batches(tokens, "sentence", 4, 35) == 15
    assert not any(batch.carries_state for batch in batches)


def test_targets_are_inputs_moved_by_one_and_padding_is_zero() -> None:
    (batch,) = training_batches(sentences(3), "sentence", 4, 35, seed=0, epoch=0)
    assert batch.input_ids.tolist() == [[2, 0, 0], [2, 11, 0], [2, 12, 12]]
    assert batch.target_ids.tolist() == [[10, 0, 0], [11, 11, 0], [12, 12, 12]]
    assert batch.input_ids.dtype == torch.int64


def test_the_order_is_the_seed_and_the_epoch() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = training_batches(sentences(), "sentence", 4, 35, seed, epoch)
        return [batch.target_ids[:, 0].tolist() for batch in batches]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)
    # Philox counts, so these very numbers come on any machine.
    assert order(1, 0)[0] == [50, 59, 14, 32]


def test_blocks_rejoin_to_the_stream() -> None:
    assert rejoined(stream()).tolist() == list(range(10, 111))


def test_lanes_go_on_from_window_to_window() -> None:
    batches = list(training_batches(stream(), "stream", batch_size=3, window_length=7, seed=0, epoch=0))
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


def test_a_stream_shorter_than_its_lanes_still_trains() -> None:
    tokens = SplitTokens(np.array([2, 5, 3], dtype=np.int32), np.array([0, 3]))
    batches = list(training_batches(tokens, "stream", 20, 35, seed=0, epoch=0))
    assert sum(batch.predicted_tokens for batch in batches) >= 1
    assert count_training_batches(tokens, "stream", 20, 35) == 1


def test_padding_is_small_because_rows_of_a_length_stand_together() -> None:
    batches = list(training_batches(sentences(2000), "sentence", 16, 35, seed=0, epoch=0))
    size = sum(batch.target_ids.numel() for batch in batches)
    assert sum(batch.predicted_tokens for batch in batches) / size > 0.95
