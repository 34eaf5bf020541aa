"""Is one model better than another on the same documents? A paired bootstrap interval for each pair of models."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rnnlm.evaluation.paired.bootstrap import confidence_bounds, resampled_differences, unit_sums
from rnnlm.metrics import NATS_PER_BIT
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.records import DatasetRecord, Record, Split
from rnnlm.storage.sql_statements import statement

CONFIDENCE, RESAMPLES = 0.95, 10_000  # two-sided, of each pair


class PairDifference(Record):
    """The bits per byte by which `first` costs more than `second` on the same documents, with a 95 % interval."""

    first: str
    second: str
    difference: float
    lower: float
    upper: float
    documents: int

    @property
    def is_clear(self) -> bool:
        """Return True if the interval does not contain zero."""
        return not self.lower <= 0 <= self.upper


@dataclass(frozen=True)
class Documents:
    """The documents of a split. Arrays of shape (documents,)."""

    first_tokens: np.ndarray  # counted over the split's predicted tokens
    last_tokens: np.ndarray  # the one after the last
    byte_counts: np.ndarray
    restoration_nats: np.ndarray

    def total_nats(self, nll_nats: np.ndarray) -> np.ndarray:
        """Return what each document costs, with what restores it from its tokens. nll_nats: (predicted tokens,)."""
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
    """Return the difference of every pair of models, in their order. nats: (documents,) of each model."""
    return tuple(
        pair_difference(first, second, nats[first] - nats[second], byte_counts, seed)
        for first, second in combinations(nats, 2)
    )


def pair_difference(
    first: str, second: str, excess_nats: np.ndarray, byte_counts: np.ndarray, seed: int
) -> PairDifference:
    """Return how much two models differ. excess_nats: (documents,), by how much the first model's cost is higher.

    With one document there is no spread: the interval is the whole line.
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
