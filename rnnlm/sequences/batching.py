"""Rows become batches of tensors: shuffled and padded (sentence), or windows over lanes (stream)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from rnnlm.sequences.reading import SplitTokens
from rnnlm.tokenizers.face import PAD

Mode = Literal["sentence", "stream"]
BUCKET_BATCHES = 100  # so many batches' rows are sorted by length together: little padding, still shuffled
EVALUATION_WINDOW = 256  # tokens at once over the single lane of a stream; changes no result


@dataclass(frozen=True)
class Batch:
    """input_ids, target_ids: (batch, time) int64; targets are the inputs moved by one, `<pad>` where there is none."""

    input_ids: torch.Tensor
    target_ids: torch.Tensor
    carries_state: bool  # the state goes on from the batch before
    predicted_tokens: int


def training_batches(
    tokens: SplitTokens, mode: Mode, batch_size: int, window_length: int, seed: int, epoch: int
) -> Iterator[Batch]:
    """One epoch in an order that (seed, epoch) alone decides, on any machine (NumPy's Philox counter)."""
    generator = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    if mode == "sentence":
        yield from shuffled_rows(tokens, batch_size, generator)
    else:
        yield from windows(rejoined(tokens), batch_size, window_length, generator)


def evaluation_batches(tokens: SplitTokens, mode: Mode, batch_size: int) -> Iterator[Batch]:
    """Every token of the split exactly once; a stream in one lane, its state carried from end to end."""
    if mode == "sentence":
        by_length = np.argsort(tokens.predicted, kind="stable")
        for start in range(0, len(by_length), batch_size):
            yield padded(tokens, by_length[start : start + batch_size])
    else:
        yield from windows(rejoined(tokens), 1, EVALUATION_WINDOW)


def count_training_batches(tokens: SplitTokens, mode: Mode, batch_size: int, window_length: int) -> int:
    """How many batches an epoch has at most: what the learning-rate schedule is stretched over."""
    if mode == "sentence":
        return -(-len(tokens.predicted) // batch_size)
    predicted = int(tokens.predicted.sum())
    lane_length = predicted // min(batch_size, predicted)
    return -(-lane_length // window_length)


def shuffled_rows(tokens: SplitTokens, batch_size: int, generator: np.random.Generator) -> Iterator[Batch]:
    """Each row once. Shuffled, sorted by length within buckets, and the buckets' batches shuffled again."""
    order = generator.permutation(len(tokens.predicted))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), batch_size * BUCKET_BATCHES):
        bucket = order[start : start + batch_size * BUCKET_BATCHES]
        bucket = bucket[np.argsort(tokens.predicted[bucket], kind="stable")]
        batches += [bucket[first : first + batch_size] for first in range(0, len(bucket), batch_size)]
    for index in generator.permutation(len(batches)):
        yield padded(tokens, batches[index])


def padded(tokens: SplitTokens, rows: np.ndarray) -> Batch:
    """The rows as one batch, padded at the right to the longest."""
    lengths = tokens.predicted[rows]
    time = np.arange(lengths.max())
    inside = time < lengths[:, None]  # (batch, time)
    positions = np.where(inside, tokens.offsets[rows][:, None] + time, 0)
    inputs = np.where(inside, tokens.token_ids[positions], PAD)
    targets = np.where(inside, tokens.token_ids[positions + 1], PAD)
    return Batch(tensor(inputs), tensor(targets), False, int(lengths.sum()))


def rejoined(tokens: SplitTokens) -> np.ndarray:
    """The stream again: blocks less the one token by which each overlaps the block before."""
    keep = np.ones(len(tokens.token_ids), dtype=bool)
    keep[tokens.offsets[1:-1]] = False
    return tokens.token_ids[keep]


def windows(
    stream: np.ndarray, lanes: int, window_length: int, generator: np.random.Generator | None = None
) -> Iterator[Batch]:
    """Consecutive windows over `lanes` equal lanes; the state is carried from window to window.

    With a generator the stream begins at a random offset below one window, so that epochs cut it
    differently; what does not fill the lanes is left for another epoch. Without, nothing is left out
    of a single lane.
    """
    predicted = len(stream) - 1
    lanes = min(lanes, predicted)
    spare = min(window_length, predicted // lanes) if generator else 1
    offset = int(generator.integers(spare)) if generator and spare > 1 else 0
    length = (predicted - offset) // lanes  # tokens each lane predicts
    if length == 0:
        offset, length = 0, predicted // lanes
    starts = offset + length * np.arange(lanes)[:, None]
    for first in range(0, length, window_length):
        positions = starts + np.arange(first, min(first + window_length, length))
        yield Batch(tensor(stream[positions]), tensor(stream[positions + 1]), first > 0, positions.size)


def tensor(ids: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(ids.astype(np.int64))
