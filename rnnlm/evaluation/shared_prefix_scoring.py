"""Losses of many rows, faster than one after the other and just as exact: every context is normalised once.

The normaliser of the softmax depends on the context alone (full_softmax.py). So rows that begin alike share it: each
begins with `<bos>`, many with the same words, some are the same throughout.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rnnlm.evaluation.full_softmax import Normalizer, logits_of
from rnnlm.evaluation.token_losses import groups
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batches import EVALUATION_WINDOW, by_length, padded
from rnnlm.sequences.segmentation import TokenRows, ends
from rnnlm.sequences.shift import padding_mask

SHARED_DEPTH = 64  # tokens from a row's beginning up to which others are looked for that begin alike


def nll_of_alike_rows(
    model: ElmanLanguageModel, rows: TokenRows, batch_size: int, tail: torch.dtype = torch.float32
) -> np.ndarray:
    """(predicted tokens,) float32 in the order of the rows, state zero before each: losses.nll_of_rows, but for
    rounding. tail: as in Normalizer.
    """
    first = first_alike(rows)
    is_first = first == np.arange(len(first))
    log_z, logit = np.zeros((2, len(first)), np.float32)
    log_normalizers = Normalizer(model, tail)
    for places, hidden, target_ids in contexts(model, rows, batch_size):
        logit[places] = logits_of(model, hidden, target_ids).cpu().numpy()
        mine = is_first[places]
        log_z[places[mine]] = log_normalizers(hidden[torch.from_numpy(mine)]).cpu().numpy()
    return np.maximum(log_z[first] - logit, 0.0)  # rounding apart it is never below zero


def first_alike(rows: TokenRows) -> np.ndarray:
    """(predicted tokens,) int64: for each the first predicted token whose context is the same, perhaps itself."""
    first = np.arange(rows.predicted_count)
    starts = ends(rows.predicted)[:-1]
    beginning = np.zeros(len(rows), np.int64)  # a number for what a row holds so far
    alike = np.flatnonzero(rows.predicted)  # rows that may still begin as another does
    for depth in range(SHARED_DEPTH):
        if not len(alike):
            break
        keys = beginning[alike] << 32 | rows.token_ids[rows.offsets[alike] + depth]
        _, nth, number, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        places = starts[alike] + depth
        first[places] = places[nth[number]]
        beginning[alike] = number
        alike = alike[(count[number] > 1) & (rows.predicted[alike] > depth + 1)]
    return first


@torch.inference_mode()
def contexts(
    model: ElmanLanguageModel, rows: TokenRows, batch_size: int
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Every predicted token once: its place in the order of the rows, the hidden state (n, H) before it, its id (n,).

    Rows go through sorted by length, long ones window by window.
    """
    device = model.embedding.weight.device
    starts = ends(rows.predicted)[:-1]
    for group in groups(by_length(np.arange(len(rows)), rows.lengths), rows.lengths, batch_size):
        (batch,) = padded(rows.take(group), len(group))
        places = starts[group, None] + np.arange(batch.target_ids.shape[1])
        state = None
        for begin in range(0, places.shape[1], EVALUATION_WINDOW):
            window = slice(begin, begin + EVALUATION_WINDOW)
            target_ids = batch.target_ids[:, window]
            there = padding_mask(target_ids)
            hidden, state = model.hidden(batch.input_ids[:, window].to(device), state)
            yield places[:, window][there.numpy()], hidden[there.to(device)], target_ids[there].to(device)
