"""The loss of every predicted token of batches, under the full softmax of the network alone."""

from collections.abc import Iterable, Iterator
from itertools import tee

import numpy as np
import torch

from rnnlm.evaluation.full_softmax import LogNormalizer
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import EVALUATION_WINDOW, Batch


@torch.inference_mode()
def nll_of_each_batch(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
    """(predicted tokens,) float32 nats of each batch, row after row without padding.

    A stream's state is carried from batch to batch. Long rows go through the model window by window.
    """
    copies = zip(model.networks, tee(batches, len(model.networks)), strict=True)
    yield from map(model.nll_of_networks, zip(*(nll_of_network(*copy) for copy in copies), strict=True))


def nll_of_network(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[np.ndarray]:
    """Like nll_of_each_batch(), of one network."""
    device = model.embedding.weight.device
    log_normalizer, state = LogNormalizer(model), None
    for batch in batches:
        state = state if batch.carries_state else None
        losses = torch.zeros(batch.target_ids.shape)
        predicted = batch.mask
        for first in range(0, batch.target_ids.shape[1], EVALUATION_WINDOW):
            window = slice(first, first + EVALUATION_WINDOW)
            hidden, state = model.hidden(batch.input_ids[:, window].to(device), state)
            here = predicted[:, window]
            target_ids = batch.target_ids[:, window][here].to(device)
            losses[:, window][here] = log_normalizer.token_nll(hidden[here.to(device)], target_ids).cpu()
        yield losses[predicted].numpy()


def nll_of_batches(model: LanguageModel, batches: Iterable[Batch]) -> tuple[float, int]:
    """Summed negative log-likelihood in nats, and the number of predicted tokens."""
    total, count = 0.0, 0
    for nll in nll_of_each_batch(model, batches):
        total += float(nll.sum(dtype=np.float64))
        count += len(nll)
    return total, count
