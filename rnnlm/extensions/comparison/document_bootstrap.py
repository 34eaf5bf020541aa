"""Test which of two models is better on the same documents, by a paired bootstrap interval of the difference."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rnnlm.evaluation.paired.bootstrap import confidence_bounds, resampled_differences, unit_sums
from rnnlm.metrics import NATS_PER_BIT
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.records import DatasetRecord, Record, Split
from rnnlm.storage.sql_statements import statement

# The level of the two-sided interval, and the number of bootstrap resamples for each pair.
CONFIDENCE, RESAMPLES = 0.95, 10_000


class PairDifference(Record):
    """The loss of the first model minus the loss of the second on the same documents, in bits per byte.

    The interval has a confidence of 95 %. The difference is positive if `first` is worse than `second`.
    """

    first: str
    second: str
    difference: float
    lower: float
    upper: float
    documents: int

    @property
    def is_clear(self) -> bool:
        """Return True if the confidence interval does not contain zero."""
        return not self.lower <= 0 <= self.upper


@dataclass(frozen=True)
class Documents:
    """The documents of a split, described by arrays of shape (documents,)."""

    first_tokens: np.ndarray  # The index of each document's first token among the split's predicted tokens.
    last_tokens: np.ndarray  # The index after each document's last token among the split's predicted tokens.
    byte_counts: np.ndarray
    restoration_nats: np.ndarray

    def total_nats(self, nll_nats: np.ndarray) -> np.ndarray:
        """Return the total loss of each document in nats, (documents,).

        The loss includes the nats needed to restore the exact text from its tokens. `nll_nats` are the losses of all
        predicted tokens of the split, (predicted tokens,).
        """
        summed = np.concatenate([[0.0], np.cumsum(nll_nats, dtype=np.float64)])
        nats: np.ndarray = summed[self.last_tokens] - summed[self.first_tokens] + self.restoration_nats
        return nats


def read_documents(dataset: DatasetRecord, split: Split) -> Documents:
    with connect(dataset) as connection:
        rows = connection.execute(statement("queries/read_document_places"), {"split": split}).fetchnumpy()
    return Documents(
        rows["first_token"], rows["last_token"], rows["byte_count"], rows["restoration_bits"] * NATS_PER_BIT
    )


def pair_differences(nats: dict[str, np.ndarray], byte_counts: np.ndarray, seed: int = 0) -> tuple[PairDifference, ...]:
    """Return the difference of every pair of models, in the order of `nats`.

    Args:
        nats: Total loss of each document in nats by model, (documents,) each.
        byte_counts: Number of bytes of each document, (documents,).
        seed: Seed of the bootstrap's resampling.
    """
    return tuple(
        pair_difference(first, second, nats[first] - nats[second], byte_counts, seed)
        for first, second in combinations(nats, 2)
    )


def pair_difference(
    first: str, second: str, excess_nats: np.ndarray, byte_counts: np.ndarray, seed: int
) -> PairDifference:
    """Return the difference between two models and its confidence interval.

    `excess_nats` is the loss of the first model minus the loss of the second one for each document, (documents,). For a
    single document the interval is the whole real line, because no variation can be estimated.
    """
    difference = float(excess_nats.sum() / byte_counts.sum())
    if len(excess_nats) > 1:
        units = unit_sums(excess_nats), unit_sums(byte_counts)
        resampled = resampled_differences(*units, RESAMPLES, seed)
        lower, upper = confidence_bounds(difference, resampled, units[1], (1 + CONFIDENCE) / 2)
    else:
        lower, upper = -np.inf, np.inf
    return PairDifference(
        first=first,
        second=second,
        difference=difference / NATS_PER_BIT,
        lower=lower / NATS_PER_BIT,
        upper=upper / NATS_PER_BIT,
        documents=len(excess_nats),
    )
