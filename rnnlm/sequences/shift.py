"""The shift by one: what a model reads, what it predicts, and where there is nothing to predict.

`input_ids` and `target_ids` of sql/schema/shifted_sequences.sql are the same shift; a test compares the two.
"""

from typing import TypeVar

import numpy as np
import torch

from ..tokenizers.text_tokenizer import PAD
from .segmentation import TokenRows

Ids = TypeVar("Ids", np.ndarray, torch.Tensor)


def shifted(token_ids: Ids) -> tuple[Ids, Ids]:
    """Return inputs and targets, (…, t) each, of token ids (…, t + 1): each target is the token after its input."""
    return token_ids[..., :-1], token_ids[..., 1:]


def shifted_rows(rows: TokenRows) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of every row, both (predicted tokens,) int32, row after row."""
    inputs, targets = shifted(rows.token_ids)
    within_row = np.ones(len(inputs), bool)
    within_row[rows.offsets[1:-1] - 1] = False  # a pair of a row's last token and the next row's first
    return inputs[within_row], targets[within_row]


def padding_mask(target_ids: torch.Tensor) -> torch.Tensor:
    """Return a tensor of bool, of the same shape: True where there is a token to predict, False at `<pad>`."""
    return target_ids.ne(PAD)


def contexts(rows: TokenRows, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens before each predicted one, (tokens, length), last one first, and the predicted, (tokens,).

    A context begins with its row; before that it is filled with 0.
    """
    ids = rows.token_ids
    positions = np.arange(len(ids)) - np.repeat(rows.offsets[:-1], rows.lengths)
    predicted = np.flatnonzero(positions)
    positions = positions[predicted]
    before = np.empty((length, len(predicted)), ids.dtype)
    for distance in range(1, length + 1):
        before[distance - 1] = np.where(distance <= positions, ids[predicted - np.minimum(distance, positions)], 0)
    return before.T, ids[predicted]
