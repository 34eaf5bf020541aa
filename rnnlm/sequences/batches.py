"""Batches of tensors: shuffled, padded rows (sentence mode) or windows over lanes (stream mode).

All random orders come from NumPy's Philox, a counter-based generator (Salmon et al. 2011): the same on any machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from .segmentation import TokenRows, join_rows
from .shift import padding_mask, shifted, shifted_rows

CHUNK_TOKENS = 1 << 18  # neighbouring rows read together
CHUNK_ROWS = 8_192  # at most, in a chunk
POOL_CHUNKS = 16  # chunks whose rows are shuffled together, from all over the split
BUCKET_BATCHES = 100  # batches whose rows are sorted by length together: little padding, still shuffled
LANE_TOKENS = 1 << 22  # read at once, over all lanes of a stream
EVALUATION_WINDOW = 256  # tokens at once over a stream's single lane; does not change results


class RowSource(Protocol):
    """Rows that can be read by range: a StoredSplit on disk, or TokenRows in memory."""

    @property
    def predicted_count(self) -> int: ...  # tokens

    def __len__(self) -> int: ...

    def read(self, first: int, last: int) -> TokenRows: ...

    def close(self) -> None: ...  # the next read opens it again


@dataclass(frozen=True)
class Batch:
    """Inputs and targets, (batch, time) int64, shifted by one (shift.py), with `<pad>` after the end of a row.

    With a teacher, target_ids is (batch, time, k): the text's token, then drawn ones.
    """

    input_ids: torch.Tensor
    target_ids: torch.Tensor
    carries_state: bool  # the recurrent state continues from the previous batch
    predicted_tokens: int  # of the batch over all ranks, even if these rows are one rank's share

    @property
    def mask(self) -> torch.Tensor:
        """Return (batch, time) bool: True where there is a token to predict."""
        return padding_mask(self.target_ids if self.target_ids.dim() == 2 else self.target_ids[..., 0])

    def share(self, rank: int, world_size: int) -> "Batch":
        """Return every world_size-th row from row `rank`; possibly none."""
        if world_size == 1:
            return self
        # Not neighbouring rows: they are sorted by length, so the last rank would get the longest.
        mine = slice(rank, None, world_size)
        return replace(self, input_ids=self.input_ids[mine].contiguous(), target_ids=self.target_ids[mine].contiguous())

    def micro_batches(self, count: int) -> list["Batch"]:
        """Split into at most `count` batches of neighbouring rows; always at least one."""
        count = max(1, min(count, len(self.input_ids)))
        if count == 1:
            return [self]
        pairs = zip(self.input_ids.tensor_split(count), self.target_ids.tensor_split(count), strict=True)
        return [replace(self, input_ids=inputs, target_ids=targets) for inputs, targets in pairs]


def shuffled_batches(
    source: RowSource, batch_size: int, seed: int, epoch: int, first_batch: int = 0
) -> Iterator[Batch]:
    """Yield one epoch of sentences: each row once, in an order that depends only on (seed, epoch).

    A pool is POOL_CHUNKS chunks of neighbouring rows drawn from the whole split. Its rows are shuffled, then sorted
    by length within buckets of BUCKET_BATCHES batches, and the batches of each bucket are shuffled. Rows that do not
    fill a batch wait for the next pool, so only the last batch is smaller. Batches before first_batch are not read.
    """
    waiting: TokenRows | None = None  # None: their pool was skipped
    for pool in pools_of_epoch(source, batch_size, seed, epoch, first_batch):
        parts = [waiting] if waiting else [source.read(row, row + 1) for row in pool.waiting.tolist()]
        rows = join_rows([*parts, *(source.read(first, last) for first, last in pool.ranges)])
        waiting = rows.take(pool.left)
        for bucket, order in zip(pool.buckets, pool.orders, strict=True):
            if len(order):
                batches = padded(rows.take(by_length(bucket, rows.lengths)), batch_size)
                yield from (batches[index] for index in order)


def by_length(bucket: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Sort the bucket by lengths[bucket], stably."""
    return bucket[np.argsort(lengths[bucket], kind="stable")]


@dataclass(frozen=True)
class Pool:
    """Rows shuffled together: those waiting from the previous pool, then those of `ranges`."""

    waiting: np.ndarray  # row numbers, fewer than a batch
    ranges: list[tuple[int, int]]  # first row, last row + 1
    buckets: list[np.ndarray]  # positions in the pool whose rows are sorted by length together
    orders: list[np.ndarray]  # of the batches of each bucket
    left: np.ndarray  # positions whose rows wait for the next pool

    @property
    def batch_count(self) -> int:
        return sum(map(len, self.orders))

    @property
    def rows(self) -> np.ndarray:
        """Row numbers by position."""
        return np.concatenate([self.waiting, *(np.arange(first, last) for first, last in self.ranges)])

    def without(self, count: int) -> "Pool":
        """Return the pool without the first `count` batches."""
        orders = []
        for order in self.orders:
            orders.append(order[count:])
            count = max(0, count - len(order))
        return replace(self, orders=orders)


def pools_of_epoch(source: RowSource, batch_size: int, seed: int, epoch: int, first_batch: int) -> Iterator[Pool]:
    """Yield the pools of an epoch without the batches before first_batch."""
    left_out = first_batch
    for pool in draw_pools(len(source), chunk_rows(source), batch_size, philox(seed, epoch)):
        if left_out < pool.batch_count:
            yield pool.without(left_out)
        left_out = max(0, left_out - pool.batch_count)


def draw_pools(row_count: int, size: int, batch_size: int, generator: np.random.Generator) -> Iterator[Pool]:
    """Yield all random decisions of an epoch, over chunks of `size` rows."""
    together = batch_size * BUCKET_BATCHES
    chunks = generator.permutation(-(-row_count // size))
    waiting = np.zeros(0, np.int64)
    for start in range(0, len(chunks), POOL_CHUNKS):
        firsts = (chunks[start : start + POOL_CHUNKS] * size).tolist()
        ranges = [(first, min(first + size, row_count)) for first in firsts]
        count = len(waiting) + sum(last - first for first, last in ranges)
        order = generator.permutation(count)
        full = count if start + POOL_CHUNKS >= len(chunks) else count // batch_size * batch_size
        ordered, left = order[:full], order[full:]
        buckets = [ordered[first : first + together] for first in range(0, full, together)]
        orders = [generator.permutation(-(-len(bucket) // batch_size)) for bucket in buckets]
        pool = Pool(waiting, ranges, buckets, orders, left)
        waiting = pool.rows[left]
        yield pool


def ordered_batches(source: RowSource, batch_size: int) -> Iterator[Batch]:
    """Yield every row once, for evaluation: in stored order, sorted by length within a chunk."""
    for chunk in chunks(source):
        yield from padded(chunk.take(by_length(np.arange(len(chunk)), chunk.lengths)), batch_size)


def length_groups(order: np.ndarray, lengths: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Cut `order`, rows sorted by length, into groups of batch_size rows; fewer if padding would exceed CHUNK_TOKENS.

    A single row is never cut.
    """
    first = 0
    while first < len(order):
        group = order[first : first + batch_size]
        while len(group) > 1 and len(group) * lengths[group[-1]] > CHUNK_TOKENS:
            group = group[: len(group) // 2]
        yield group
        first += len(group)


def chunk_rows(source: RowSource) -> int:
    """Return the number of rows in a chunk: CHUNK_ROWS, or fewer if rows are long."""
    mean_length = 1 + source.predicted_count // max(1, len(source))
    return max(1, min(CHUNK_ROWS, CHUNK_TOKENS // mean_length))


def chunks(source: RowSource) -> Iterator[TokenRows]:
    """Yield all rows in stored order, a chunk at a time."""
    for first in range(0, len(source), size := chunk_rows(source)):
        yield source.read(first, min(first + size, len(source)))


def padded(rows: TokenRows, batch_size: int) -> list[Batch]:
    """Return consecutive rows as batches, each right-padded to its longest row.

    All batches are views of one array: a few NumPy calls in total instead of a few per batch.
    """
    predicted = rows.predicted
    starts = np.arange(0, len(rows), batch_size)
    heights = np.minimum(batch_size, len(rows) - starts)
    widths = np.maximum.reduceat(predicted, starts) if len(rows) else predicted
    areas = heights * widths
    corners = np.cumsum(areas) - areas  # start of each batch in the array
    # Row r of batch i begins at corners[i] + r * widths[i].
    row_starts = np.repeat(corners, heights) + (np.arange(len(rows)) - np.repeat(starts, heights)) * np.repeat(
        widths, heights
    )
    places = np.arange(predicted.sum()) + np.repeat(row_starts - (np.cumsum(predicted) - predicted), predicted)
    inputs, targets = torch.zeros((2, int(areas.sum())), dtype=torch.int64)  # zero is <pad>
    inputs.numpy()[places], targets.numpy()[places] = shifted_rows(rows)
    totals = np.add.reduceat(predicted, starts) if len(rows) else predicted
    return [
        Batch(
            inputs[corner : corner + height * width].view(height, width),
            targets[corner : corner + height * width].view(height, width),
            False,
            total,
        )
        for corner, height, width, total in zip(
            corners.tolist(), heights.tolist(), widths.tolist(), totals.tolist(), strict=True
        )
    ]


@dataclass(frozen=True)
class StreamCut:
    """A stream cut into `lanes` equal pieces of `length` predicted tokens, starting at token `offset`."""

    lanes: int
    offset: int
    length: int


def cut_stream(
    predicted: int, lanes: int, window_length: int, generator: np.random.Generator | None = None
) -> StreamCut:
    """Cut a stream of `predicted` tokens for an epoch.

    With a generator it starts at a random offset below one window, so that epochs are cut differently; tokens that do
    not fill the lanes are skipped. Without one, a single lane holds all tokens.
    """
    lanes = min(lanes, predicted)
    if not lanes:
        return StreamCut(0, 0, 0)
    spare = min(window_length, predicted // lanes) if generator else 1
    offset = int(generator.integers(spare)) if generator and spare > 1 else 0
    if (predicted - offset) // lanes == 0:
        offset = 0
    return StreamCut(lanes, offset, (predicted - offset) // lanes)


def stream_batches(
    source: RowSource,
    window_length: int,
    cut: StreamCut,
    rank: int = 0,
    world_size: int = 1,
    first_batch: int = 0,
) -> Iterator[Batch]:
    """Yield consecutive windows over the lanes of a stream; the state is carried from window to window.

    Rank r has every world_size-th lane from lane r, possibly none. Batches before first_batch are not read.
    """
    if not cut.length:
        return
    stream = TokenStream(source)
    starts = [cut.offset + cut.length * lane for lane in range(rank, cut.lanes, world_size)]
    at_once = max(1, LANE_TOKENS // (max(1, len(starts)) * window_length)) * window_length
    for done in range(first_batch * window_length, cut.length, at_once):
        count = min(at_once, cut.length - done)
        text = np.zeros((len(starts), count + 1), np.int32)
        for lane, start in enumerate(starts):
            text[lane] = stream.read(start + done, start + done + count + 1)
        for first in range(0, count, window_length):
            window = torch.from_numpy(text[:, first : min(first + window_length, count) + 1].astype(np.int64))
            yield Batch(*shifted(window), done + first > 0, cut.lanes * (window.shape[1] - 1))


class TokenStream:
    """The running text of a split, read by range from blocks that overlap by one token."""

    def __init__(self, source: RowSource) -> None:
        self.source = source
        self.block = int(source.read(0, 1).lengths[0]) - 1  # predicted tokens of every block but the last
        self.predicted = source.predicted_count

    def read(self, start: int, end: int) -> np.ndarray:
        """Read tokens start … end - 1 of the stream, (end - start,) int32."""
        first = min(start // self.block, len(self.source) - 1)
        last = min((end - 2) // self.block, len(self.source) - 1) if end - start > 1 else first
        rows = self.source.read(first, last + 1)
        keep = np.ones(len(rows.token_ids), bool)
        keep[rows.offsets[1:-1]] = False
        return rows.token_ids[keep][start - first * self.block : end - first * self.block]


def philox(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, epoch]))
