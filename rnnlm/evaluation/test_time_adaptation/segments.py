"""A split in the order of the text, a few tokens at a time."""

from collections.abc import Iterator

import numpy as np
import torch

from rnnlm.sequences.batches import Batch, RowSource, chunks, cut_stream, stream_batches
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import shifted


def segments(source: RowSource, mode: Mode, length: int) -> Iterator[Batch]:
    """Every predicted token once, in the order of the text, `length` at a time: batches of one row.

    A sentence begins with a state of zeros, as in training, and its last segment may be shorter. A stream is cut as
    one text, regardless of its stored blocks.
    """
    if mode == "stream":
        yield from stream_batches(source, length, cut_stream(source.predicted_count, 1, length))
        return
    for rows in chunks(source):
        for row in range(len(rows)):
            sentence = torch.from_numpy(rows.read(row, row + 1).token_ids.astype(np.int64))[None]
            for start in range(0, sentence.shape[1] - 1, length):
                piece = sentence[:, start : start + length + 1]
                yield Batch(*shifted(piece), start > 0, piece.shape[1] - 1)
