"""A split in the order of the text, a few tokens at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rnnlm.sequences.batches import CHUNK_TOKENS, RowSource, TokenStream, chunk_rows
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import shifted


@dataclass(frozen=True)
class Segment:
    input_ids: Tensor  # (1, t) int64
    target_ids: Tensor  # (1, t) int64
    carries_state: bool  # it continues the segment before


def segments(source: RowSource, mode: Mode, length: int) -> Iterator[Segment]:
    """Every predicted token once, in the order of the text, `length` at a time.

    A sentence begins with a state of zeros, as in training, and its last segment may be shorter. A stream is cut as
    one text, regardless of its stored blocks.
    """
    for text, continues in texts(source, mode, length):
        ids = torch.from_numpy(text.astype(np.int64))[None]
        for start in range(0, ids.shape[1] - 1, length):
            piece = ids[:, start : start + length + 1]
            yield Segment(*shifted(piece), start > 0 or continues)


def texts(source: RowSource, mode: Mode, length: int) -> Iterator[tuple[np.ndarray, bool]]:
    """(t,) token ids of a sentence or a stretch of the stream, and whether they continue the ones before.

    Stretches overlap by one token and hold whole segments.
    """
    if mode == "sentence":
        for first in range(0, len(source), size := chunk_rows(source)):
            rows = source.read(first, min(first + size, len(source)))
            for row in range(len(rows)):
                yield rows.read(row, row + 1).token_ids, False
    elif source.predicted_count:
        stream = TokenStream(source)
        at_once = max(1, CHUNK_TOKENS // length) * length
        for start in range(0, stream.predicted, at_once):
            yield stream.read(start, min(start + at_once, stream.predicted) + 1), start > 0
