"""The n-gram model of a training text, and the weights of a mixture of several models.

The weights are fitted on the validation lines that are used for model selection (sequences/validation_lines.py). Hence
the mixture's score on the validation split is slightly too good, but its score on the test split is not.
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
# The order of an n-gram model that is compared or mixed with a network, if no order is configured.
COMPARED_ORDER = 5
# The smallest number of validation tokens with a context of some length for which this length gets a separate weight.
FEWEST_TOKENS = 1_000
GOLDEN = (5**0.5 - 1) / 2
PRECISION = 1e-6  # The precision of a mixture's weight.
LEAST_GAIN = 1e-9  # The decrease of the loss in nats per token below which the EM algorithm stops.
MOST_STEPS = 1_000


def fit_mixture(dataset: DatasetRecord, order: int, network_nll_nats: np.ndarray | None) -> tuple[CountMixture, float]:
    """Return the mixture of the network and the training split's n-gram model, and the seconds that counting took.

    The weights are fitted on the validation lines that are used for model selection. `network_nll_nats` contains the
    network's losses on the validation split, (predicted tokens,), in the order of the text. If it is None, there is no
    network.
    """
    counts, seconds = count_training_split(dataset, order)
    shares = np.ones(counts.order)
    if network_nll_nats is not None:
        of_counts, lengths = split_log_probabilities(counts, dataset, "valid")
        chosen, of_network = choosing_tokens(dataset), -np.asarray(network_nll_nats, np.float64)
        shares = fitted_shares(of_network[chosen], of_counts[chosen], lengths[chosen], counts.order)
    return CountMixture(counts, shares), seconds


def count_training_split(dataset: DatasetRecord, order: int) -> tuple[CountModel, float]:
    """Return the Kneser-Ney model of the training split, and the seconds that counting the n-grams took.

    Counting needs 20 bytes per token, so only the last COUNTED_TOKENS tokens of a long text are counted, which are the
    newest.
    """
    size, start = dataset.vocabulary_size, time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="rnnlm-counts-") as folder,
        open_database(Path(folder) / "counts.duckdb", NgramConfig(order=order), dataset.database) as connection,
    ):
        count_ngrams(connection, size, order, first_counted_row(dataset))
        return read_count_model(connection, order, size), time.perf_counter() - start


def first_counted_row(dataset: DatasetRecord) -> int:
    """Return the index of the first training row that is counted, on the assumption that rows have equal lengths."""
    tokens, rows = dataset.predicted_tokens["train"], dataset.sequence_counts["train"]
    return rows - round(rows * min(1.0, COUNTED_TOKENS / max(1, tokens)))


def split_log_probabilities(model: CountModel, dataset: DatasetRecord, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-probability of each token, and the length of its longest context in the training text.

    Each array has shape (predicted tokens,) and is in the order of the text.
    """
    source = StoredSplit(dataset, split)
    parts = [model.log_probabilities(*part) for part in contexts_of_split(source, dataset.mode, model.order - 1)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def fitted_shares(of_network: np.ndarray, of_counts: np.ndarray, context_lengths: np.ndarray, order: int) -> np.ndarray:
    """Return the best weight of the n-gram model for each length of a token's longest known context, (order,).

    A context is known if it occurs in the training text. The best weight gives the lowest loss. If few tokens have a
    context of some length, this length gets the weight that is best for all tokens together. The weight of the network
    is always positive.
    """
    shares = np.full(order, best_share(of_network, of_counts))
    for length in range(order):
        here = context_lengths == length
        if here.sum() >= FEWEST_TOKENS:
            shares[length] = best_share(of_network[here], of_counts[here])
    return np.minimum(shares, 1 - PRECISION)


def mean_nll(log_probabilities: np.ndarray) -> float:
    """Return the mean loss in nats per token. It is inf if the probability of a token is zero."""
    return float(-log_probabilities.mean())


def best_share(first: np.ndarray, second: np.ndarray) -> float:
    """Return the weight w in p = (1 - w) p_first + w p_second with the lowest mean loss.

    `first` and `second` are natural logarithms, (tokens,). The loss is convex in the weight, which is computed up to
    PRECISION. The weights 0 and 1 are tried, too, so that neither of the two models alone has a lower loss on these
    tokens.
    """

    def loss(share: float) -> float:
        return mean_nll(mixed(first, second, share))

    return min((golden_section(loss, 0.0, 1.0), 0.0, 1.0), key=loss)


def best_shares(nll_nats: np.ndarray) -> np.ndarray:
    """Return the weights, (models,), that sum to 1 and minimize the loss of the weighted mean of the probabilities.

    `nll_nats` has shape (models, tokens). The method is expectation maximization (Dempster, Laird and Rubin 1977): the
    new weight of a model is the mean of its fraction of each token's probability. The loss is convex in the weights.
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
    """Return the minimum of `loss` between `low` and `high` by golden-section search (Kiefer 1953).

    The function must be unimodal. Each step keeps 0.618 of the interval and one of its two inner points.
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
