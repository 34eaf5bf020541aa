"""The paired bootstrap, which tests whether a difference is significant (Koehn 2004, Efron and Tibshirani 1993).

From n units, n units are drawn with replacement, and the difference in nats per byte is computed. This is repeated many
times. The results vary in the same way as the results on other texts of the same kind. A unit consists of the lines of
a document that are compared. If there are few documents, a unit is a run of neighbouring lines instead. Single tokens
would be the wrong units, because the tokens of a line are correlated.

Neighbouring units are similar, too, and their correlation widens the bounds (Newey and West 1987). If units are runs of
lines, the correlation within a document also widens them (Liang and Zeger 1986). So does skewness (Johnson 1978): if a
candidate is slightly better in most units and much worse in a few, samples without these few units would favour it.

A champion is compared with many candidates on nearly the same lines, for instance one in every nightly run. Each
comparison has a small probability of a false alarm, and these probabilities add up. Hence the k-th comparison with the
same champion may be wrong with the probability (1 - confidence) / (k (k + 1)). These probabilities sum to 1 -
confidence over any number of comparisons (alpha spending, Lan and DeMets 1983). This is an upper bound of the
probability that a champion is ever replaced by a model that is not better.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from scipy.special import stdtrit

from rnnlm.config import RegistryConfig
from rnnlm.corpora.decision_ground import FEW_DOCUMENTS
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.result_records import Evidence
from rnnlm.storage.sql_statements import literal, statement

# The largest number of units. If there are more documents, a unit is a group of neighbouring documents.
MAXIMUM_UNITS = 10_000
DRAWN_AT_ONCE = 2_000_000  # The number of units drawn at once.


def measure_evidence(
    losses: Path,
    config: RegistryConfig,
    comparison: int = 1,
    *,
    must_be_better: bool = False,
    only_lines: np.ndarray | None = None,
) -> Evidence | None:
    """Return the evidence in a file of write_paired_losses(), or None if the file has no lines.

    Args:
        losses: The file.
        config: The settings of the registry.
        comparison: The number of this comparison among those with the same champion, from 1 on.
        must_be_better: Whether the candidate must be shown to be better to be promoted; see evidence_from().
        only_lines: The digests of the lines to use, (lines,) uint64. If None, all lines are used.
    """
    digests = None if only_lines is None else only_lines.tolist()
    parameters = {"losses": literal(losses), "only_lines": digests}
    # With a single thread, sums are always computed in the same order.
    with duckdb.connect(config={"threads": 1}) as connection:
        (totals,) = table(connection, "promotion/measure_losses", parameters)
        pairs = connection.sql(statement("promotion/pair_losses"), params=parameters).to_arrow_table()
    if not len(pairs):
        return None
    columns = (pairs[name].to_numpy() for name in ("document_id", "excess_nats", "byte_count"))
    return evidence_from(totals, units_of_lines(*columns), config, comparison, must_be_better=must_be_better)


@dataclass(frozen=True)
class Units:
    """The units from which the bootstrap draws, in the order of the text.

    A unit consists of all compared lines of a document, or of a run of neighbouring lines.
    """

    excess_nats: np.ndarray  # The loss of the candidate minus the loss of the champion, (units,).
    byte_counts: np.ndarray  # The number of bytes of each unit, (units,).
    # The index of the first unit of each document, (documents,), or None if each document is a unit.
    document_starts: np.ndarray | None = None

    @property
    def are_runs(self) -> bool:
        return self.document_starts is not None

    @property
    def residuals(self) -> np.ndarray:
        """The residual of each unit, excess - bytes * (total excess / total bytes), (units,).

        The residuals sum to 0.
        """
        found: np.ndarray = self.excess_nats - self.byte_counts * (self.excess_nats.sum() / self.byte_counts.sum())
        return found


def units_of_lines(document_ids: np.ndarray, excess_nats: np.ndarray, byte_counts: np.ndarray) -> Units:
    """Group lines into units. The arguments have shape (lines,) and are in the order of the text."""
    documents = np.flatnonzero(np.diff(document_ids, prepend=-1))
    if len(documents) >= FEW_DOCUMENTS:
        sums = (unit_sums(np.add.reduceat(values, documents)) for values in (excess_nats, byte_counts))
        return Units(*sums)
    runs = run_starts(len(document_ids), FEW_DOCUMENTS)
    # A run of lines that spans two documents belongs to the first of them.
    of_documents = np.unique(np.searchsorted(runs, documents))
    return Units(
        np.add.reduceat(excess_nats, runs),
        np.add.reduceat(byte_counts, runs),
        of_documents[of_documents < len(runs)],
    )


def run_starts(count: int, maximum: int) -> np.ndarray:
    """Return the index at which each run of neighbours begins, (runs,) int64.

    There are at most `maximum` runs of about equal length.
    """
    return np.linspace(0, count, min(count, maximum), endpoint=False).astype(np.int64)


def evidence_from(
    totals: dict[str, Any],
    units: Units,
    config: RegistryConfig,
    comparison: int = 1,
    *,
    must_be_better: bool = False,
) -> Evidence:
    """Return the evidence for the given sums and units.

    `totals` contains the fields of Evidence that are sums. If `must_be_better` is true, the candidate is promoted only
    if it is shown to be better. In this case each comparison consumes a part of the error probability.
    """
    differences = resampled_differences(units.excess_nats, units.byte_counts, config.resamples, config.seed)
    confidence = spent_confidence(config.confidence, comparison) if must_be_better else config.confidence
    residuals = units.residuals
    widening = max(correlation_widening(residuals), document_widening(residuals, units.document_starts))
    lower, upper = confidence_bounds(
        totals["difference"], differences, units.byte_counts, confidence, widening, sum_skewness(residuals)
    )
    return Evidence(
        **totals,
        blocks=units.are_runs,
        lower=lower,
        upper=upper,
        units=len(units.excess_nats),
        confidence=confidence,
        resamples=config.resamples,
        comparison=comparison,
    )


def spent_confidence(confidence: float, comparison: int) -> float:
    """Return the one-sided confidence of the k-th comparison.

    Over all k, the error probabilities sum to 1 - confidence.
    """
    return 1 - (1 - confidence) / (comparison * (comparison + 1))


def correlation_widening(residuals: np.ndarray) -> float:
    """Return the factor, at least 1, by which the correlation of neighbouring units increases the standard error.

    `residuals`, (units,), are those of Units. The method uses Bartlett's weights, with lags up to the cube root of the
    number of units.
    """
    variance = float((residuals**2).sum())
    if not variance > 0:
        return 1.0
    lags = round(len(residuals) ** (1 / 3))
    correlations = (float((residuals[:-lag] * residuals[lag:]).sum()) / variance for lag in range(1, lags + 1))
    return max(1.0, 1 + 2 * sum((1 - lag / (lags + 1)) * one for lag, one in enumerate(correlations, start=1))) ** 0.5


def document_widening(residuals: np.ndarray, document_starts: np.ndarray | None) -> float:
    """Return the factor, at least 1, by which the correlation within documents increases the standard error.

    It is computed from the variance between whole documents of any length (Liang and Zeger 1986).
    """
    if document_starts is None or len(document_starts) < 2:
        return 1.0
    variance = float((residuals**2).sum())
    of_documents = np.add.reduceat(residuals, document_starts)
    count = len(of_documents)
    return max(1.0, float((of_documents**2).sum()) / variance * count / (count - 1)) ** 0.5 if variance > 0 else 1.0


def sum_skewness(residuals: np.ndarray) -> float:
    """Return the skewness of the sum of the residuals.

    It is the skewness of one residual divided by the square root of their number.
    """
    variance = float((residuals**2).sum())
    return float((residuals**3).sum()) / variance**1.5 if variance > 0 else 0.0


def confidence_bounds(
    difference: float,
    resampled: np.ndarray,
    byte_counts: np.ndarray,
    confidence: float,
    widening: float = 1.0,
    skewness: float = 0.0,
) -> tuple[float, float]:
    """Return a one-sided lower and a one-sided upper bound of the difference, based on its standard error.

    The standard error is the standard deviation of the resampled differences. It is multiplied by a quantile of
    Student's t distribution, because the resamples themselves contain little information about probabilities as small
    as one in 10,000. With few units the variance of the resamples is uncertain and slightly too small.

    Args:
        difference: The difference in nats per byte.
        resampled: The differences of the resamples.
        byte_counts: The sizes of the units, (units,). Units of different sizes correspond to fewer units of equal size
            (Satterthwaite 1946), and so do correlated units.
        confidence: The one-sided confidence.
        widening: The factor by which correlation increases the standard error.
        skewness: The skewness of the sum of independent units. It widens the bound on the side of the long tail (the
            first term of the Cornish-Fisher expansion), and narrows neither bound.
    """
    sizes = byte_counts.astype(np.float64)
    worth = float((sizes**2).sum() ** 2 / (sizes**4).sum()) / widening**2
    freedom = max(1.0, worth - 1)
    deviation = widening * float(resampled.std(ddof=1)) * (worth / freedom) ** 0.5
    quantile = float(stdtrit(freedom, confidence))
    shift = widening * skewness * (2 * quantile**2 + 1) / 6
    return difference - (quantile + max(0.0, -shift)) * deviation, difference + (quantile + max(0.0, shift)) * deviation


def unit_sums(values: np.ndarray) -> np.ndarray:
    """Return sums over runs of neighbours of about equal length. There are at most MAXIMUM_UNITS sums, (units,)."""
    summed: np.ndarray = np.add.reduceat(values, run_starts(len(values), MAXIMUM_UNITS))
    return summed


def resampled_differences(excess_nats: np.ndarray, byte_counts: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return the difference in nats per byte for each resample, (resamples,) float64.

    A difference is positive if the candidate is worse. `excess_nats` and `byte_counts` have shape (units,). The same
    seed gives the same resamples on every machine.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    count = len(excess_nats)
    parts = []
    for first in range(0, resamples, at_once := max(1, DRAWN_AT_ONCE // count)):
        drawn = draw.integers(0, count, (min(at_once, resamples - first), count))
        # This ratio of sums weights documents by their lengths, as the difference over all documents does.
        parts.append(excess_nats[drawn].sum(axis=1) / byte_counts[drawn].sum(axis=1))
    return np.concatenate(parts)
