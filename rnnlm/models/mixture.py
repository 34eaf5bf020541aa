"""Mixtures of a network with an n-gram model.

The module is copied into every bundle, so it imports only torch and NumPy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch import Tensor

from .count_model import FILE, CountModel, count_model_of


# Mixtures are compared by identity, because comparing two arrays by `==` gives an array.
@dataclass(frozen=True, eq=False)
class CountMixture:
    """The mixture p(w) = (1 - s) p_network(w) + s p_ngram(w), where both models have read the same tokens.

    The weight s of the n-gram model depends on the length of the known context, which is the number of tokens before w
    that occur together in the training text (Jelinek & Mercer 1980). `shares`, (order,) float64, contains the weight
    for each length from 0 on. The weight usually grows with this length.
    """

    counts: CountModel
    shares: np.ndarray

    @property
    def is_alone(self) -> bool:
        """True if the n-gram model is used without a network. In this case, all of its weights are exactly 1."""
        return bool((self.shares == 1).all())

    @property
    def uses_counts(self) -> bool:
        """False if all weights of the n-gram model are 0, because it does not improve the network's predictions."""
        return bool(self.shares.any())

    @property
    def context_length(self) -> int:
        """The number of tokens before w that the n-gram model reads."""
        return self.counts.order - 1

    def nll(self, network_nll_nats: np.ndarray, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the losses of given words in nats, (tokens,) float32.

        `contexts` and `words` are the arguments of CountModel.log_probabilities.
        """
        both, _ = self.mixed_and_counts(network_nll_nats, contexts, words)
        nll: np.ndarray = -both.astype(np.float32)
        return nll

    def mixed_and_counts(
        self, network_nll_nats: np.ndarray, contexts: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probabilities of given words by the mixture and by the n-gram model alone.

        Both arrays have shape (tokens,) and type float64.
        """
        of_counts, lengths = self.counts.log_probabilities(contexts, words)
        return mixed(-network_nll_nats.astype(np.float64), of_counts, self.shares[lengths]), of_counts

    def log_probabilities(self, logits: Tensor, contexts: Sequence[Sequence[int]]) -> Tensor:
        """Return the mixture's log-probabilities of all words, (n, V), as natural logarithms.

        `logits` are those of the network, (n, V). `contexts` contains the tokens before each position, the last one
        first. A context may be shorter, or end with 0, if there are fewer tokens.
        """
        rows = logits.detach().cpu().double().softmax(dim=-1).numpy()
        for row, context in zip(rows, contexts, strict=True):
            probabilities, length = self.counts.distribution(context)
            row *= 1 - self.shares[length]
            row += self.shares[length] * probabilities
        # The logarithm of 0, for tokens that are never predicted, is -inf without a warning.
        with np.errstate(divide="ignore"):
            logarithms = torch.from_numpy(np.log(rows, out=rows))
        return logarithms.to(logits.device, logits.dtype)


def mixed(first: np.ndarray, second: np.ndarray, share: float | np.ndarray) -> np.ndarray:
    """Return the log-probabilities of a linear mixture, given those of its two parts, (tokens,) each.

    `share` is the weight of the second part, either one number or an array (tokens,). With 1, the result is the second
    part alone.
    """
    with np.errstate(divide="ignore"):  # The logarithm of a share of 0 is -inf, without a warning.
        mixture: np.ndarray = np.logaddexp(np.log1p(-share) + first, np.log(share) + second)
    return mixture


def save_mixture(mixture: CountMixture | None, folder: Path) -> None:
    """Save the mixture in the model's folder. If `mixture` is None, remove a mixture that was saved there before."""
    if mixture is None:
        (folder / FILE).unlink(missing_ok=True)
        return
    save_file(mixture.counts.arrays() | {"shares": mixture.shares}, folder / FILE)


def load_mixture(folder: Path, vocabulary_size: int) -> CountMixture | None:
    """Return the mixture in a model's folder, or None if the folder has none.

    Raise ValueError if its file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    arrays = load_file(path)
    shares = arrays.pop("shares")
    counts = count_model_of(arrays, vocabulary_size)
    if shares.shape != (counts.order,) or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"{FILE}: the shares do not fit the counts")
    return CountMixture(counts, shares)


def used_counts(folder: Path) -> int:
    """Return the order of the n-gram model in `folder`. Return 0 if there is none or if all of its weights are 0."""
    if not (folder / FILE).exists():
        return 0
    with safe_open(folder / FILE, framework="numpy") as file:
        shares = file.get_tensor("shares")
    return len(shares) if shares.any() else 0


def histories(input_ids: np.ndarray, length: int) -> np.ndarray:
    """Return the tokens that were read before each step, the last one first, (rows, t, length). Missing tokens are 0.

    `input_ids` has shape (rows, t). Each row must begin at the beginning of its text.
    """
    padded = np.pad(input_ids, [(0, 0), (length, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, length + 1, axis=1)
    return windows[:, :, :0:-1]
