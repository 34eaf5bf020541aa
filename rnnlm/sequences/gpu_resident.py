"""A split in GPU memory. For each batch, only the numbers of its rows are copied to the GPU.

The batches are those of shuffled_batches and stream_batches, in the same order.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rnnlm.sequences.batches import (
    Batch,
    RowSource,
    StreamCut,
    by_length,
    chunks,
    pools_of_epoch,
)
from rnnlm.sequences.segmentation import Mode, ends
from rnnlm.sequences.shift import shifted


class ResidentText:
    """The token ids of all rows of a split, concatenated on the device.

    The offset and the number of predicted tokens of each row are on the CPU.
    """

    def __init__(self, token_ids: Tensor, predicted: np.ndarray) -> None:
        self.token_ids = token_ids  # (tokens,) int32
        self.predicted = predicted  # (rows,) int64
        self.starts = ends(predicted + 1)[:-1]

    def rows(self, starts: np.ndarray, predicted: np.ndarray, width: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, (rows, width) int64, with `<pad>` after the end of a row."""
        both = torch.from_numpy(np.stack([starts, predicted]))
        if self.token_ids.is_cuda:
            both = both.pin_memory()  # The memory is pinned, so that the copy to the device is asynchronous.
        first, count = both.to(self.token_ids.device, non_blocking=True)[:, :, None]
        steps = torch.arange(width + 1, device=self.token_ids.device)
        places = torch.where(steps <= count, first + steps, 0)
        inputs, targets = shifted(self.token_ids[places])
        predicts = steps[:width] < count
        # The product replaces ids after the end of a row by 0, which is the id of <pad>.
        return inputs.long().mul_(predicts), targets.long().mul_(predicts)


def resident_text(source: RowSource, mode: Mode, device: torch.device) -> ResidentText:
    """Read a whole split chunk by chunk onto the device.

    Sentences are rows in stored order; a stream is a single row.
    """
    is_stream = mode == "stream"
    count = source.predicted_count + (1 if is_stream else len(source))
    token_ids = torch.empty(count, dtype=torch.int32, device=device)
    predicted = [np.array([source.predicted_count])] if is_stream else []
    filled = 0
    for rows in chunks(source):
        ids = rows.token_ids
        # The first token of each block is left out, because in stream mode it is also the last token of the previous
        # block.
        if is_stream:
            ids = np.delete(ids, rows.offsets[1 if not filled else 0 : -1])
        else:
            predicted.append(rows.predicted)
        token_ids[filled : filled + len(ids)] = torch.from_numpy(ids)
        filled += len(ids)
    return ResidentText(token_ids, np.concatenate(predicted))


def shuffled_resident_batches(
    text: ResidentText,
    source: RowSource,
    batch_size: int,
    seed: int,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
    first_batch: int = 0,
) -> Iterator[Batch]:
    """Yield the batches of shuffled_batches(). Each batch is divided among the ranks as in Batch.share()."""
    for pool in pools_of_epoch(source, batch_size, seed, epoch, first_batch):
        numbers = pool.rows
        for bucket, order in zip(pool.buckets, pool.orders, strict=True):
            rows = by_length(numbers[bucket], text.predicted)
            for first in (order * batch_size).tolist():
                batch = rows[first : first + batch_size]
                predicted = text.predicted[batch]
                mine = slice(rank, None, world_size)
                inputs, targets = text.rows(text.starts[batch[mine]], predicted[mine], int(predicted.max()))
                yield Batch(inputs, targets, False, int(predicted.sum()))


def resident_windows(
    text: ResidentText,
    window_length: int,
    cut: StreamCut,
    rank: int = 0,
    world_size: int = 1,
    first_batch: int = 0,
) -> Iterator[Batch]:
    """Yield the same batches as stream_batches(), but cut from a text that is already on the device."""
    lanes = cut.offset + cut.length * np.arange(rank, cut.lanes, world_size)
    for done in range(first_batch * window_length, cut.length, window_length):
        width = min(window_length, cut.length - done)
        inputs, targets = text.rows(lanes + done, np.full(len(lanes), width), width)
        yield Batch(inputs, targets, done > 0, cut.lanes * width)
