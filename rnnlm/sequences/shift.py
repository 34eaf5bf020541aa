"""The shift by one token between inputs and targets, and the mask of the targets to predict.

sql/schema/shifted_sequences.sql computes `input_ids` and `target_ids` with the same shift, and a test compares both.
"""

from typing import TypeVar

import numpy as np
import torch

from ..tokenizers.text_tokenizer import PAD
from .segmentation import TokenRows

Ids = TypeVar("Ids", np.ndarray, torch.Tensor)


def shifted(token_ids: Ids) -> tuple[Ids, Ids]:
    """Return inputs and targets, (…, t) each, of token ids (…, t + 1). Each target is the token after its input."""
    return token_ids[..., :-1], token_ids[..., 1:]


def shifted_rows(rows: TokenRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and the targets of all rows, (predicted tokens,) int32 each, one row after the other."""
    inputs, targets = shifted(rows.token_ids)
    within_row = np.ones(len(inputs), bool)
    # The last token of a row and the first token of the next row are excluded, because they are not a pair.
    within_row[rows.offsets[1:-1] - 1] = False
    return inputs[within_row], targets[within_row]


def padding_mask(target_ids: torch.Tensor) -> torch.Tensor:
    """Return a mask in the shape of `target_ids`, which is true where the target is not `<pad>`."""
    return target_ids.ne(PAD)


def contexts(rows: TokenRows, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens before each predicted token, (tokens, length), and the predicted tokens, (tokens,).

    The nearest token of a context comes first. A context does not extend beyond the beginning of its row. Missing
    tokens are 0.
    """
    ids = rows.token_ids
    positions = np.arange(len(ids)) - np.repeat(rows.offsets[:-1], rows.lengths)
    predicted = np.flatnonzero(positions)
    positions = positions[predicted]
    before = np.empty((length, len(predicted)), ids.dtype)
    for distance in range(1, length + 1):
        before[distance - 1] = np.where(distance <= positions, ids[predicted - np.minimum(distance, positions)], 0)
    return before.T, ids[predicted]
