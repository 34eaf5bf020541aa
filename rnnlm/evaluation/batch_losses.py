"""The loss of every predicted token in batches, under the full softmax of a network without an n-gram model.

All losses of text are computed here. shared_prefix_scoring.py creates the batches from rows, and document_losses.py
creates the rows from texts. The module is copied into every registered model.
"""

from collections.abc import Iterable, Iterator
from itertools import tee
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import ModelError
from ..models.language_model import LanguageModel
from ..sequences.batches import EVALUATION_WINDOW, Batch
from .full_softmax import LogNormalizer


class ReadWindow(NamedTuple):
    """A window of a batch that the model has read. The batch has b rows, and the window has n tokens to predict."""

    # (n,) int64: the index of each predicted token in the flattened batch, which is row * columns + column.
    cells: np.ndarray
    hidden: Tensor  # (n, H or E): the input of the head.
    target_ids: Tensor  # (n,) int64
    state: Tensor  # (b, L, S): the state after the window.


def read_windows(model: LanguageModel, batch: Batch, state: Tensor | None = None) -> Iterator[ReadWindow]:
    """Read a batch from left to right, window by window, so that long rows need no more memory than short ones.

    `state`, (b, L, S), is the state before the batch. If it is None, the state is zero.
    """
    device = model.embedding.weight.device
    cells, predicted = np.arange(batch.target_ids.numel()).reshape(batch.target_ids.shape), batch.mask
    for first in range(0, cells.shape[1], EVALUATION_WINDOW):
        window = slice(first, first + EVALUATION_WINDOW)
        hidden, state = model.hidden(batch.input_ids[:, window].to(device), state)
        here = predicted[:, window]
        target_ids = batch.target_ids[:, window][here].to(device)
        yield ReadWindow(cells[:, window][here.numpy()], hidden[here.to(device)], target_ids, state)


@torch.inference_mode()
def nll_of_each_batch(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
    """Yield the losses of each batch in nats, (predicted tokens,) float32, row after row without padding.

    The recurrent state of a stream is carried from batch to batch.
    """
    copies = zip(model.networks, tee(batches, len(model.networks)), strict=True)
    yield from map(model.nll_of_networks, zip(*(nll_of_network(*copy) for copy in copies), strict=True))


def nll_of_network(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
    """Yield the losses of a single network in the same form as nll_of_each_batch()."""
    log_normalizer, state = LogNormalizer(model), None
    for batch in batches:
        state = state if batch.carries_state else None
        losses = np.zeros(batch.target_ids.numel(), np.float32)
        for read in read_windows(model, batch, state):
            losses[read.cells] = log_normalizer.token_nll(read.hidden, read.target_ids).cpu().numpy()
            state = read.state
        yield losses[batch.mask.numpy().reshape(-1)]


def finite(nll_nats: np.ndarray) -> np.ndarray:
    """Return the losses. Raise ModelError if one is not finite because values of the network have overflowed."""
    if not np.isfinite(nll_nats).all():
        raise ModelError(
            "the loss on this text is not finite, because the model's states or weights are too large;\n"
            "train the model again, with a smaller learning rate or another nonlinearity"
        )
    return nll_nats


def nll_of_batches(model: LanguageModel, batches: Iterable[Batch]) -> tuple[float, int]:
    """Return the negative log-likelihood in nats, summed over all predicted tokens, and the number of these tokens."""
    total, count = 0.0, 0
    for nll in nll_of_each_batch(model, batches):
        total += float(nll.sum(dtype=np.float64))
        count += len(nll)
    return total, count
