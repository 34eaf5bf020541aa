"""A split in the order of the text, a few tokens at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rnnlm.sequences.batching import Mode, Source, chunk_rows


@dataclass(frozen=True)
class Segment:
    """input_ids, target_ids: (1, t) int64; carries_state: it goes on from the segment before."""

    input_ids: Tensor
    target_ids: Tensor
    carries_state: bool


def segments(source: Source, mode: Mode, length: int) -> Iterator[Segment]:
    """Every predicted token once, in the order of the text; a stored row is cut, no segment reaches into the next.

    A sentence's row begins with a state of zeros, as in training; a stream's goes on from the row before.
    """
    begun = False
    for first in range(0, len(source), size := chunk_rows(source)):
        rows = source.read(first, min(first + size, len(source)))
        for row in range(len(rows)):
            ids = torch.from_numpy(rows.read(row, row + 1).token_ids.astype(np.int64))[None]
            for start in range(0, ids.shape[1] - 1, length):
                piece = ids[:, start : start + length + 1]
                yield Segment(piece[:, :-1], piece[:, 1:], start > 0 or (mode == "stream" and begun))
                begun = True
