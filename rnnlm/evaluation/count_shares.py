"""Count the training text, and choose the shares of models in their mixture.

The shares are fitted on the validation lines that may choose (sequences/validation_lines.py), so that the split's
figure flatters the mixture a little; that of the test split does not.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rnnlm.evaluation.ngram.count_arrays import read_count_model
from rnnlm.evaluation.ngram.kneser_ney import count_ngrams
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import open_database
from rnnlm.evaluation.token_losses import contexts_of_split
from rnnlm.models.count_model import CountModel
from rnnlm.models.mixture import CountMixture, mixed
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.validation_lines import choosing_tokens
from rnnlm.storage.records import DatasetRecord, Split

COUNTED_TOKENS = 20_000_000
COMPARED_ORDER = 5  # n-gram order of counts that are only compared or mixed with a network
FEWEST_TOKENS = 1_000  # of the validation split with a context of one length, for a share of their own
GOLDEN = (5**0.5 - 1) / 2
PRECISION = 1e-6  # of a share
LEAST_GAIN = 1e-9  # in nats per token: the shares are found when a step of EM gains less
MOST_STEPS = 1_000


def fit_mixture(dataset: DatasetRecord, order: int, network_nll_nats: np.ndarray | None) -> tuple[CountMixture, float]:
    """Count the training split, and fit shares on the choosing lines. Return the mixture and the seconds of counting.

    network_nll_nats: (predicted tokens,) of the validation split, in the order of the text. None: there is no network.
    """
    counts, seconds = count_training_split(dataset, order)
    shares = np.ones(counts.order)
    if network_nll_nats is not None:
        of_counts, lengths = split_log_probabilities(counts, dataset, "valid")
        chosen, of_network = choosing_tokens(dataset), -np.asarray(network_nll_nats, np.float64)
        shares = fitted_shares(of_network[chosen], of_counts[chosen], lengths[chosen], counts.order)
    return CountMixture(counts, shares), seconds


def count_training_split(dataset: DatasetRecord, order: int) -> tuple[CountModel, float]:
    """Return the Kneser-Ney model of the training split, and the seconds that counting took.

    Only the last COUNTED_TOKENS of a long text are counted: they are the newest, and counts take 20 bytes a token.
    """
    size, start = dataset.vocabulary_size, time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="rnnlm-counts-") as folder,
        open_database(Path(folder) / "counts.duckdb", NgramConfig(order=order), dataset.database) as connection,
    ):
        count_ngrams(connection, size, order, first_counted_row(dataset))
        return read_count_model(connection, order, size), time.perf_counter() - start


def first_counted_row(dataset: DatasetRecord) -> int:
    """Return the first row of the training split that is counted, as if all rows were equally long."""
    tokens, rows = dataset.predicted_tokens["train"], dataset.sequence_counts["train"]
    return rows - round(rows * min(1.0, COUNTED_TOKENS / max(1, tokens)))


def split_log_probabilities(model: CountModel, dataset: DatasetRecord, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probabilities and lengths of known contexts, each (predicted tokens,), in the order of the text."""
    source = StoredSplit(dataset, split)
    parts = [model.log_probabilities(*part) for part in contexts_of_split(source, dataset.mode, model.order - 1)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def fitted_shares(of_network: np.ndarray, of_counts: np.ndarray, context_lengths: np.ndarray, order: int) -> np.ndarray:
    """Return the share of the counts for each length of the known context, (order,): the one with the lowest loss.

    Lengths with few tokens have the share that is best for all tokens together. The network always has some share.
    """
    shares = np.full(order, best_share(of_network, of_counts))
    for length in range(order):
        here = context_lengths == length
        if here.sum() >= FEWEST_TOKENS:
            shares[length] = best_share(of_network[here], of_counts[here])
    return np.minimum(shares, 1 - PRECISION)


def mean_nll(log_probabilities: np.ndarray) -> float:
    """Return nats per token, or inf if a token has probability zero."""
    return float(-log_probabilities.mean())


def best_share(first: np.ndarray, second: np.ndarray) -> float:
    """Return the share of the second model in p = (1 - share) p_first + share p_second with the lowest mean loss.

    first, second: (tokens,) natural logarithms. Found to within PRECISION: the loss is convex in the share. The ends
    are tried too, so the mixture is never worse on these tokens than either model.
    """

    def loss(share: float) -> float:
        return mean_nll(mixed(first, second, share))

    return min((golden_section(loss, 0.0, 1.0), 0.0, 1.0), key=loss)


def best_shares(nll_nats: np.ndarray) -> np.ndarray:
    """Return the shares, (models,), which sum to 1, whose mean of the probabilities has the lowest loss.

    nll_nats: (models, tokens). By expectation maximization (Dempster, Laird and Rubin 1977): a model's new share is the
    mean of its part in each token's probability. The loss is convex in the shares.
    """
    relative = np.exp(nll_nats.min(axis=0) - nll_nats.astype(np.float64))
    shares = np.full(len(relative), 1 / len(relative))
    loss = np.inf
    for _ in range(MOST_STEPS):
        together = shares @ relative
        before, loss = loss, mean_nll(np.log(together))
        if before - loss < LEAST_GAIN:
            break
        shares = shares * (relative / together).mean(axis=1)
    return shares / shares.sum()


def golden_section(loss: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a function that is unimodal between low and high (Kiefer 1953).

    Each step keeps 0.618 of the interval and one of its two inner points.
    """
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > PRECISION:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2
