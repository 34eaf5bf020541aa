"""Exact losses of many rows that share prefixes. The softmax of each distinct context is computed only once.

The normalizer of the softmax depends only on the context (full_softmax.py), so it is computed once for all rows with a
common prefix. All rows begin with `<bos>`, many begin with the same words, and some are equal. Scoring is therefore
faster than row by row. The module is copied into every registered model.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..models.language_model import LanguageModel
from ..sequences.batches import by_length, length_groups, padded
from ..sequences.segmentation import TokenRows, ends
from .batch_losses import finite, read_windows
from .full_softmax import LogNormalizer, target_logits

MAX_SHARED_PREFIX = 64  # The largest number of tokens in a common prefix that is searched for.


def nll_of_rows_sharing_prefixes(
    model: LanguageModel, rows: TokenRows, batch_size: int, tail_dtype: torch.dtype = torch.float32
) -> np.ndarray:
    """Return the losses of rows in nats, (predicted tokens,) float32, in the order of the rows.

    The state is zero before each row. `batch_size` changes the results only by rounding. `tail_dtype` is explained in
    LogNormalizer.
    """
    return finite(model.nll_of_networks([nll_of_network(one, rows, batch_size, tail_dtype) for one in model.networks]))


def nll_of_network(model: LanguageModel, rows: TokenRows, batch_size: int, tail_dtype: torch.dtype) -> np.ndarray:
    """Return the losses of the rows under a single network."""
    first = first_with_same_context(rows)
    is_first = first == np.arange(len(first))
    log_z, logit = np.zeros((2, len(first)), np.float32)
    log_normalizer = LogNormalizer(model, tail_dtype)
    for places, hidden, target_ids in hidden_states(model, rows, batch_size):
        logit[places] = target_logits(model, hidden, target_ids).cpu().numpy()
        distinct = is_first[places]
        log_z[places[distinct]] = log_normalizer(hidden[torch.from_numpy(distinct)]).cpu().numpy()
    return np.maximum(log_z[first] - logit, 0.0)  # The loss can be negative only by rounding.


def first_with_same_context(rows: TokenRows) -> np.ndarray:
    """Return the index of the first predicted token with the same context, for each predicted token, int64."""
    first = np.arange(rows.predicted_count)
    starts = ends(rows.predicted)[:-1]
    prefix = np.zeros(len(rows), np.int64)  # The number that identifies the current prefix of each row.
    shared = np.flatnonzero(rows.predicted)  # The rows whose current prefix may equal that of another row.
    for depth in range(MAX_SHARED_PREFIX):
        if not len(shared):
            break
        keys = prefix[shared] << 32 | rows.token_ids[rows.offsets[shared] + depth]
        _, nth, number, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        places = starts[shared] + depth
        first[places] = places[nth[number]]
        prefix[shared] = number
        shared = shared[(count[number] > 1) & (rows.predicted[shared] > depth + 1)]
    return first


@torch.inference_mode()
def hidden_states(
    model: LanguageModel, rows: TokenRows, batch_size: int
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Yield the positions (n,), hidden states (n, H) and ids of predicted tokens. Each token occurs once.

    The positions refer to the order of the rows. The model reads the rows sorted by length.
    """
    starts = ends(rows.predicted)[:-1]
    for group in length_groups(by_length(np.arange(len(rows)), rows.lengths), rows.lengths, batch_size):
        (batch,) = padded(rows.take(group), len(group))
        places = (starts[group, None] + np.arange(batch.target_ids.shape[1])).reshape(-1)
        for cells, hidden, target_ids, _ in read_windows(model, batch):
            yield places[cells], hidden, target_ids
