"""Compute the probabilities of a mixture by their definition: a forward pass and an n-gram search per position."""

from collections.abc import Sequence

import numpy as np
import torch

from rnnlm.models.language_model import LanguageModel


def log_probabilities_of(model: LanguageModel, token_ids: Sequence[int]) -> torch.Tensor:
    """Return the natural log-probabilities of the token after each position, (t, V), for a row of ids, (t,)."""
    with torch.no_grad():
        probabilities = model(torch.tensor([list(token_ids)]))[0][0].double().softmax(-1).numpy()
    if model.mixture is not None:
        for place in range(len(token_ids)):
            of_counts, known = model.mixture.counts.distribution(list(token_ids[: place + 1])[::-1])
            share = model.mixture.shares[known]
            probabilities[place] = (1 - share) * probabilities[place] + share * of_counts
    with np.errstate(divide="ignore"):  # The logarithm of 0, for tokens that are never predicted, gives no warning.
        return torch.from_numpy(np.log(probabilities)).float()
