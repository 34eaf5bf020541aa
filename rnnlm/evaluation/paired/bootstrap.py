"""The paired bootstrap, which tells a difference from chance (Koehn 2004, Efron and Tibshirani 1993).

Draw n of the n units with replacement and compute the difference in nats per byte, many times. The spread of the
results is that of other samples of the same kind of text. Tokens would be the wrong units: those of one line are
correlated. A unit is what judges in one document or, if there are few documents, a run of neighbouring judging lines.
Neighbouring units are alike, too: their correlation widens the bounds (Newey and West 1987), and that of a document's
units, if units are runs of its lines (Liang and Zeger 1986). So does skewness: if a candidate is a little better in
most units and much worse in a few, samples without those few call it better (Johnson 1978).

A candidate that must be better is one of many that are compared with a champion on much the same lines, one every
night. Each chance of a false alarm is small, but they add up. So the k-th comparison with one champion may err with
probability (1 - confidence) / (k (k + 1)). These sum to 1 - confidence over any number of nights (alpha spending, Lan
and DeMets 1983): at most the probability that a champion is ever replaced by a model that is not better.
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

MAXIMUM_UNITS = 10_000  # of more documents, runs of neighbours are drawn together, to keep a resample quick
DRAWN_AT_ONCE = 2_000_000  # units


def measure_evidence(
    losses: Path,
    config: RegistryConfig,
    comparison: int = 1,
    *,
    must_be_better: bool = False,
    only_lines: np.ndarray | None = None,
) -> Evidence | None:
    """Return the evidence in a file of write_paired_losses, or None if it has no line.

    comparison: number of this comparison among those with the same champion, from 1. must_be_better: see
    evidence_from(). only_lines: (lines,) uint64 digests of the only lines that count; None: all count.
    """
    digests = None if only_lines is None else only_lines.tolist()
    parameters = {"losses": literal(losses), "only_lines": digests}
    with duckdb.connect(config={"threads": 1}) as connection:  # one thread sums in one order
        (totals,) = table(connection, "promotion/measure_losses", parameters)
        pairs = connection.sql(statement("promotion/pair_losses"), params=parameters).to_arrow_table()
    if not len(pairs):
        return None
    columns = (pairs[name].to_numpy() for name in ("document_id", "excess_nats", "byte_count"))
    return evidence_from(totals, units_of_lines(*columns), config, comparison, must_be_better=must_be_better)


@dataclass(frozen=True)
class Units:
    """Units to draw, in the order of the text: the judging lines of a document, or runs of neighbouring ones."""

    excess_nats: np.ndarray  # (units,) by how much the candidate costs more
    byte_counts: np.ndarray  # (units,)
    document_starts: np.ndarray | None = None  # (documents,) first unit of each; None: the units are the documents

    @property
    def are_runs(self) -> bool:
        return self.document_starts is not None

    @property
    def residuals(self) -> np.ndarray:
        """Return each unit's excess minus its proportional share of the total, (units,). The residuals sum to 0."""
        found: np.ndarray = self.excess_nats - self.byte_counts * (self.excess_nats.sum() / self.byte_counts.sum())
        return found


def units_of_lines(document_ids: np.ndarray, excess_nats: np.ndarray, byte_counts: np.ndarray) -> Units:
    """Group lines into units. Each argument is (lines,), in the order of the text."""
    documents = np.flatnonzero(np.diff(document_ids, prepend=-1))
    if len(documents) >= FEW_DOCUMENTS:
        sums = (unit_sums(np.add.reduceat(values, documents)) for values in (excess_nats, byte_counts))
        return Units(*sums)
    runs = run_starts(len(document_ids), FEW_DOCUMENTS)
    # A run that holds the end of one document and the start of the next counts as the first one's.
    of_documents = np.unique(np.searchsorted(runs, documents))
    return Units(
        np.add.reduceat(excess_nats, runs),
        np.add.reduceat(byte_counts, runs),
        of_documents[of_documents < len(runs)],
    )


def run_starts(count: int, maximum: int) -> np.ndarray:
    """Return where runs of neighbours of about equal length begin, (runs,) int64, at most `maximum` of them."""
    return np.linspace(0, count, min(count, maximum), endpoint=False).astype(np.int64)


def evidence_from(
    totals: dict[str, Any],
    units: Units,
    config: RegistryConfig,
    comparison: int = 1,
    *,
    must_be_better: bool = False,
) -> Evidence:
    """Make the evidence from its sums and units. totals: the fields of Evidence that sums give.

    must_be_better: the candidate is promoted only if it is shown to be, so the confidence of each comparison is spent.
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
    """Return one-sided confidence of the k-th comparison; the error probabilities sum to 1 - confidence over all k."""
    return 1 - (1 - confidence) / (comparison * (comparison + 1))


def correlation_widening(residuals: np.ndarray) -> float:
    """Return how many times larger the standard error is because neighbouring units are correlated; at least 1.

    residuals: (units,), of the excess beyond each unit's share. Bartlett's weights, over lags up to the cube root of
    the number of units.
    """
    variance = float((residuals**2).sum())
    if not variance > 0:
        return 1.0
    lags = round(len(residuals) ** (1 / 3))
    correlations = (float((residuals[:-lag] * residuals[lag:]).sum()) / variance for lag in range(1, lags + 1))
    return max(1.0, 1 + 2 * sum((1 - lag / (lags + 1)) * one for lag, one in enumerate(correlations, start=1))) ** 0.5


def document_widening(residuals: np.ndarray, document_starts: np.ndarray | None) -> float:
    """Return how many times larger the standard error is because the units of a document are correlated; at least 1.

    From the spread of whole documents, however long they are (Liang and Zeger 1986).
    """
    if document_starts is None or len(document_starts) < 2:
        return 1.0
    variance = float((residuals**2).sum())
    of_documents = np.add.reduceat(residuals, document_starts)
    count = len(of_documents)
    return max(1.0, float((of_documents**2).sum()) / variance * count / (count - 1)) ** 0.5 if variance > 0 else 1.0


def sum_skewness(residuals: np.ndarray) -> float:
    """Return the skewness of the residuals' sum: that of one residual divided by the square root of their number."""
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
    """Return one-sided bounds below and above the difference, from the standard error of the resamples.

    A quantile of Student's t: the resamples themselves say little about probabilities as small as one in 10,000, and
    of few units their spread is uncertain, and a little too small. byte_counts: (units,); units of unlike sizes are
    worth fewer ones of equal size (Satterthwaite 1946), and so are correlated ones. skewness: of the sum of independent
    units; it widens the bound on the side of the long tail (the first term of the Cornish-Fisher expansion) and narrows
    none.
    """
    sizes = byte_counts.astype(np.float64)
    worth = float((sizes**2).sum() ** 2 / (sizes**4).sum()) / widening**2
    freedom = max(1.0, worth - 1)
    deviation = widening * float(resampled.std(ddof=1)) * (worth / freedom) ** 0.5
    quantile = float(stdtrit(freedom, confidence))
    shift = widening * skewness * (2 * quantile**2 + 1) / 6
    return difference - (quantile + max(0.0, -shift)) * deviation, difference + (quantile + max(0.0, shift)) * deviation


def unit_sums(values: np.ndarray) -> np.ndarray:
    """Return sums over runs of neighbours of about equal length, (units,), at most MAXIMUM_UNITS."""
    summed: np.ndarray = np.add.reduceat(values, run_starts(len(values), MAXIMUM_UNITS))
    return summed


def resampled_differences(excess_nats: np.ndarray, byte_counts: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return by how many nats per byte the candidate costs more, (resamples,) float64, each from another draw of units.

    excess_nats, byte_counts: (units,). The same seed gives the same draws on any machine.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    count = len(excess_nats)
    parts = []
    for first in range(0, resamples, at_once := max(1, DRAWN_AT_ONCE // count)):
        drawn = draw.integers(0, count, (min(at_once, resamples - first), count))
        # A ratio of sums, as over all documents: a long document weighs more than a short one.
        parts.append(excess_nats[drawn].sum(axis=1) / byte_counts[drawn].sum(axis=1))
    return np.concatenate(parts)
