"""A count-based model beside a network, and the mixture of both: what counting alone gives, and what it adds.

p(w) = (1 - s) p_network(w) + s p_counts(w). The share s of the counts depends on how many tokens before w the training
text has seen together (Jelinek & Mercer 1980): the longer the known context, the more counts are worth. The shares are
fitted on the validation split, so that its figure flatters the mixture a little; that of the test split does not.
"""

from dataclasses import dataclass

import numpy as np

from rnnlm.evaluation.ngram.count_arrays import read_count_model
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.test_time_adaptation.interpolation import best_share, mixed
from rnnlm.home import Home
from rnnlm.models.count_model import CountModel
from rnnlm.records import DatasetRecord, Split
from rnnlm.sequences.batches import RowSource, chunks
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.shift import contexts

FEWEST_TOKENS = 1_000  # of the validation split with a context of one length, for a share of their own


@dataclass(frozen=True)
class CountMixture:
    """Summed losses in nats of each split, and the shares that were fitted."""

    counts_nll_nats: dict[Split, float]
    mixed_nll_nats: dict[Split, float]
    shares: tuple[float, ...]  # of the counts, by the number of known tokens before the predicted one, from 0
    seconds: float  # to count the training text, whenever that was


def mix_with_counts(home: Home, dataset: DatasetRecord, order: int, nll_nats: dict[Split, np.ndarray]) -> CountMixture:
    """Count the training split, and mix.

    nll_nats: (predicted tokens,) of the network on each split, in the order of the text; one is the validation split.
    """
    config = NgramConfig(order=order)
    counted = train_kneser_ney(home, dataset, config)
    model = read_count_model(counted, config, dataset.vocabulary_size)
    of_counts = {split: split_log_probabilities(model, StoredSplit(dataset, split)) for split in nll_nats}
    of_network = {split: -np.asarray(nll, np.float64) for split, nll in nll_nats.items()}
    shares = fitted_shares(of_network["valid"], *of_counts["valid"], order)
    counts_nll, mixed_nll = {}, {}
    for split, (log_probabilities, context_lengths) in of_counts.items():
        counts_nll[split] = -float(log_probabilities.sum())
        mixed_nll[split] = -float(mixed(of_network[split], log_probabilities, shares[context_lengths]).sum())
    return CountMixture(counts_nll, mixed_nll, tuple(map(float, shares)), counted.seconds)


def split_log_probabilities(model: CountModel, source: RowSource) -> tuple[np.ndarray, np.ndarray]:
    """(predicted tokens,) natural logarithms and lengths of known contexts, in the order of the text."""
    parts = [model.log_probabilities(*contexts(rows, model.order - 1)) for rows in chunks(source)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def fitted_shares(of_network: np.ndarray, of_counts: np.ndarray, context_lengths: np.ndarray, order: int) -> np.ndarray:
    """(order,) the share of the counts for each length of the known context, with the lowest loss on these tokens.

    Lengths with few tokens have the share that is best for all tokens together.
    """
    shares = np.full(order, best_share(of_network, of_counts))
    for length in range(order):
        here = context_lengths == length
        if here.sum() >= FEWEST_TOKENS:
            shares[length] = best_share(of_network[here], of_counts[here])
    return shares
