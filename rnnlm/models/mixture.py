"""A network's probabilities mixed with those of counts. Imports only torch and NumPy: part of every bundle."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch import Tensor

from .count_model import FILE, CountModel, count_model_of


@dataclass(frozen=True, eq=False)  # compared by identity
class CountMixture:
    """p(w) = (1 - s) p_network(w) + s p_counts(w), after the same tokens.

    shares: (order,) float64, the s for each number of tokens before w that the training text has seen together, from 0
    (Jelinek & Mercer 1980): the longer the known context, the more counts are worth.
    """

    counts: CountModel
    shares: np.ndarray

    @property
    def is_alone(self) -> bool:
        """There is no network: all shares are 1, which fitted ones never are."""
        return bool((self.shares == 1).all())

    @property
    def uses_counts(self) -> bool:
        """False if all shares are 0: the network alone predicts as well."""
        return bool(self.shares.any())

    @property
    def context_length(self) -> int:
        """Tokens before w that the counts read."""
        return self.counts.order - 1

    def nll(self, network_nll_nats: np.ndarray, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the losses of given words in nats, (tokens,) float32.

        contexts, words: see CountModel.log_probabilities.
        """
        both, _ = self.mixed_and_counts(network_nll_nats, contexts, words)
        nll: np.ndarray = -both.astype(np.float32)
        return nll

    def mixed_and_counts(
        self, network_nll_nats: np.ndarray, contexts: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probabilities of given words by the mixture and by counts alone, each (tokens,) float64."""
        of_counts, lengths = self.counts.log_probabilities(contexts, words)
        return mixed(-network_nll_nats.astype(np.float64), of_counts, self.shares[lengths]), of_counts

    def log_probabilities(self, logits: Tensor, contexts: Sequence[Sequence[int]]) -> Tensor:
        """Mix the probabilities of all words. logits: (n, V) of the network → (n, V) natural logarithms.

        contexts: the tokens before each, the last one first; 0, or the end, where there is none.
        """
        rows = logits.detach().cpu().double().softmax(dim=-1).numpy()
        for row, context in zip(rows, contexts, strict=True):
            probabilities, length = self.counts.distribution(context)
            row *= 1 - self.shares[length]
            row += self.shares[length] * probabilities
        with np.errstate(divide="ignore"):  # log 0: never predicted
            logarithms = torch.from_numpy(np.log(rows, out=rows))
        return logarithms.to(logits.device, logits.dtype)


def mixed(first: np.ndarray, second: np.ndarray, share: float | np.ndarray) -> np.ndarray:
    """Return log-probabilities of a linear mixture from those of its parts, (tokens,) each.

    Share 1 is the second part alone.

    share: of all tokens, or (tokens,).
    """
    with np.errstate(divide="ignore"):  # log 0: that part has no share
        mixture: np.ndarray = np.logaddexp(np.log1p(-share) + first, np.log(share) + second)
    return mixture


def save_mixture(mixture: CountMixture | None, folder: Path) -> None:
    """Save the mixture beside the model. With None, the model in `folder` is a network alone from now on."""
    if mixture is None:
        (folder / FILE).unlink(missing_ok=True)
        return
    save_file(mixture.counts.arrays() | {"shares": mixture.shares}, folder / FILE)


def load_mixture(folder: Path, vocabulary_size: int) -> CountMixture | None:
    """Load the mixture of the network in `folder`; None if it is a network alone. ValueError if the file is damaged."""
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
    """Return the order of the counts that the model in `folder` uses: 0 without counts, and if all shares are 0."""
    if not (folder / FILE).exists():
        return 0
    with safe_open(folder / FILE, framework="numpy") as file:
        shares = file.get_tensor("shares")
    return len(shares) if shares.any() else 0


def histories(input_ids: np.ndarray, length: int) -> np.ndarray:
    """Return the tokens read before each step, the last one first, (rows, t, length). Ids are 0 where there is none.

    input_ids: (rows, t), each row from its beginning.
    """
    padded = np.pad(input_ids, [(0, 0), (length, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, length + 1, axis=1)
    return windows[:, :, :0:-1]
