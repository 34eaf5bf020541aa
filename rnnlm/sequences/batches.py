"""Batches of tensors: shuffled and padded rows (sentence mode), or windows over the lanes of a stream (stream mode).

Random orders are drawn from Philox, a counter-based generator (Salmon et al. 2011), which is the same on all machines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from .segmentation import TokenRows, join_rows
from .shift import padding_mask, shifted, shifted_rows

CHUNK_TOKENS = 1 << 18  # The approximate number of tokens in a chunk.
CHUNK_ROWS = 8_192  # The largest number of rows in a chunk.
POOL_CHUNKS = 16  # The number of chunks in a pool. They are drawn from the whole split.
# The number of batches whose rows are sorted by length together. The number is large enough for little padding, and
# small enough to keep the order random.
BUCKET_BATCHES = 100
LANE_TOKENS = 1 << 22  # The number of tokens that are read at once, over all lanes of a stream.
# The number of tokens of a stream that evaluation reads at once. It does not change the results.
EVALUATION_WINDOW = 256


class RowSource(Protocol):
    """Rows that can be read by range, such as a StoredSplit on disk or TokenRows in memory."""

    @property
    def predicted_count(self) -> int: ...  # The number of predicted tokens in all rows.

    def __len__(self) -> int: ...

    def read(self, first: int, last: int) -> TokenRows: ...

    def close(self) -> None: ...  # Close the files. The next call of read() opens them again.


@dataclass(frozen=True)
class Batch:
    """Inputs and targets, (batch, time) int64, shifted by one (shift.py), with `<pad>` after the end of a row.

    With a teacher, target_ids has shape (batch, time, k). The first target is the token of the text; the others are
    drawn from the teacher.
    """

    input_ids: torch.Tensor
    target_ids: torch.Tensor
    carries_state: bool  # True if the recurrent state continues from the previous batch.
    # The number of predicted tokens in the whole batch, even if this object contains only the rows of one rank.
    predicted_tokens: int

    @property
    def mask(self) -> torch.Tensor:
        """A mask, (batch, time) bool, which is true where there is a token to predict."""
        return padding_mask(self.target_ids if self.target_ids.dim() == 2 else self.target_ids[..., 0])

    def share(self, rank: int, world_size: int) -> "Batch":
        """Return the rows of one rank: every world_size-th row, beginning with row `rank`. A rank may get no row."""
        if world_size == 1:
            return self
        # The rows are sorted by length, so neighbouring rows would give the last rank all of the longest rows.
        mine = slice(rank, None, world_size)
        return replace(self, input_ids=self.input_ids[mine].contiguous(), target_ids=self.target_ids[mine].contiguous())

    def micro_batches(self, count: int) -> list["Batch"]:
        """Split the batch into at most `count` batches of neighbouring rows, but at least into one."""
        count = max(1, min(count, len(self.input_ids)))
        if count == 1:
            return [self]
        pairs = zip(self.input_ids.tensor_split(count), self.target_ids.tensor_split(count), strict=True)
        return [replace(self, input_ids=inputs, target_ids=targets) for inputs, targets in pairs]


def shuffled_batches(
    source: RowSource, batch_size: int, seed: int, epoch: int, first_batch: int = 0
) -> Iterator[Batch]:
    """Yield one epoch of sentences. Each row occurs once, in an order that depends only on (seed, epoch).

    A pool consists of POOL_CHUNKS chunks of neighbouring rows, drawn from the whole split. The rows of a pool are
    shuffled and divided into buckets of BUCKET_BATCHES batches. Each bucket is sorted by length and divided into
    batches, whose order is shuffled. Rows that do not fill a batch are added to the next pool, so only the last batch
    of the epoch is smaller. Batches before first_batch are skipped without reading them.
    """
    # The rows left from the previous pool, or None if that pool was skipped without reading it.
    waiting: TokenRows | None = None
    for pool in pools_of_epoch(source, batch_size, seed, epoch, first_batch):
        parts = [waiting] if waiting else [source.read(row, row + 1) for row in pool.waiting.tolist()]
        rows = join_rows([*parts, *(source.read(first, last) for first, last in pool.ranges)])
        waiting = rows.take(pool.left)
        for bucket, order in zip(pool.buckets, pool.orders, strict=True):
            if len(order):
                batches = padded(rows.take(by_length(bucket, rows.lengths)), batch_size)
                yield from (batches[index] for index in order)


def by_length(bucket: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the row positions in `bucket`, sorted by lengths[bucket]. The sort is stable."""
    return bucket[np.argsort(lengths[bucket], kind="stable")]


@dataclass(frozen=True)
class Pool:
    """Rows that are shuffled together. Rows left from the previous pool come first, then the rows in `ranges`."""

    waiting: np.ndarray  # The numbers of the rows left from the previous pool, which are too few for a batch.
    # Each range consists of the number of its first row and the number of the row after its last one.
    ranges: list[tuple[int, int]]
    buckets: list[np.ndarray]  # Positions in the pool. The rows of a bucket are sorted by length together.
    orders: list[np.ndarray]  # The shuffled order of the batches in each bucket.
    left: np.ndarray  # The positions of the rows that are left for the next pool.

    @property
    def batch_count(self) -> int:
        return sum(map(len, self.orders))

    @property
    def rows(self) -> np.ndarray:
        """The row number at each position of the pool."""
        return np.concatenate([self.waiting, *(np.arange(first, last) for first, last in self.ranges)])

    def without(self, count: int) -> "Pool":
        """Return the pool without the first `count` batches."""
        orders = []
        for order in self.orders:
            orders.append(order[count:])
            count = max(0, count - len(order))
        return replace(self, orders=orders)


def pools_of_epoch(source: RowSource, batch_size: int, seed: int, epoch: int, first_batch: int) -> Iterator[Pool]:
    """Yield the pools of an epoch, without the batches before first_batch."""
    left_out = first_batch
    for pool in draw_pools(len(source), chunk_rows(source), batch_size, philox(seed, epoch)):
        if left_out < pool.batch_count:
            yield pool.without(left_out)
        left_out = max(0, left_out - pool.batch_count)


def draw_pools(row_count: int, size: int, batch_size: int, generator: np.random.Generator) -> Iterator[Pool]:
    """Yield the pools of an epoch, whose chunks have `size` rows. All random choices of the epoch are drawn here."""
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
    """Yield every row once for evaluation, chunk by chunk in stored order. Each chunk is sorted by length."""
    for chunk in chunks(source):
        yield from padded(chunk.take(by_length(np.arange(len(chunk)), chunk.lengths)), batch_size)


def length_groups(order: np.ndarray, lengths: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Yield groups of at most batch_size rows of `order`, with the rows sorted by length.

    A group is smaller if its padded rows would exceed CHUNK_TOKENS tokens, but has at least one row.
    """
    first = 0
    while first < len(order):
        group = order[first : first + batch_size]
        while len(group) > 1 and len(group) * lengths[group[-1]] > CHUNK_TOKENS:
            group = group[: len(group) // 2]
        yield group
        first += len(group)


def chunk_rows(source: RowSource) -> int:
    """Return the number of rows in a chunk, which is CHUNK_ROWS, or fewer if rows are long."""
    mean_length = 1 + source.predicted_count // max(1, len(source))
    return max(1, min(CHUNK_ROWS, CHUNK_TOKENS // mean_length))


def chunks(source: RowSource) -> Iterator[TokenRows]:
    """Yield all rows in stored order, one chunk at a time."""
    for first in range(0, len(source), size := chunk_rows(source)):
        yield source.read(first, min(first + size, len(source)))


def padded(rows: TokenRows, batch_size: int) -> list[Batch]:
    """Return batches of consecutive rows. Each row is padded on the right to the longest row of its batch.

    All batches are views of one array. Hence the number of NumPy calls does not grow with the number of batches.
    """
    predicted = rows.predicted
    starts = np.arange(0, len(rows), batch_size)
    heights = np.minimum(batch_size, len(rows) - starts)
    widths = np.maximum.reduceat(predicted, starts) if len(rows) else predicted
    areas = heights * widths
    corners = np.cumsum(areas) - areas  # The index in the array at which each batch begins.
    # The index at which each row begins: row r of batch i begins at corners[i] + r * widths[i].
    row_starts = np.repeat(corners, heights) + (np.arange(len(rows)) - np.repeat(starts, heights)) * np.repeat(
        widths, heights
    )
    places = np.arange(predicted.sum()) + np.repeat(row_starts - (np.cumsum(predicted) - predicted), predicted)
    inputs, targets = torch.zeros((2, int(areas.sum())), dtype=torch.int64)  # 0 is the id of <pad>.
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
    """The division of a stream into `lanes` segments of `length` predicted tokens each, beginning at token `offset`."""

    lanes: int
    offset: int
    length: int


def cut_stream(
    predicted: int, lanes: int, window_length: int, generator: np.random.Generator | None = None
) -> StreamCut:
    """Return the division of a stream of `predicted` tokens into lanes for one epoch.

    With a generator, the first lane begins at a random offset smaller than a window, so that the windows of every epoch
    are different. Tokens that do not fill all lanes equally are skipped. Evaluation passes no generator and one lane,
    which then contains all tokens.
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
    """Yield consecutive windows over the lanes of a stream. The recurrent state continues from window to window.

    Rank r has every world_size-th lane from lane r on, possibly none. Batches before first_batch are skipped without
    reading them.
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
    """The continuous text of a split, which is read by range from blocks that overlap by one token."""

    def __init__(self, source: RowSource) -> None:
        self.source = source
        # The number of predicted tokens in each block except the last one.
        self.block = int(source.read(0, 1).lengths[0]) - 1
        self.predicted = source.predicted_count

    def read(self, start: int, end: int) -> np.ndarray:
        """Return the tokens from `start` to `end` - 1 of the stream, (end - start,) int32."""
        first = min(start // self.block, len(self.source) - 1)
        last = min((end - 2) // self.block, len(self.source) - 1) if end - start > 1 else first
        rows = self.source.read(first, last + 1)
        keep = np.ones(len(rows.token_ids), bool)
        keep[rows.offsets[1:-1]] = False
        return rows.token_ids[keep][start - first * self.block : end - first * self.block]


def philox(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, epoch]))
