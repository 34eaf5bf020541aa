"""Is the difference more than chance? The paired bootstrap over documents (Koehn 2004, Efron and Tibshirani 1993).

From the n units n are drawn with replacement, and the difference in nats per byte is computed anew, many times. The
spread of the results is that of another sample of the same kind of text. Tokens would be the wrong units: those of
one document go up and down together.

A champion meets many candidates on much the same documents, one every night. Each chance of a false alarm is small,
all of them together are not. So the k-th comparison with one champion may err with the probability
(1 - confidence) / (k (k + 1)). These add up to 1 - confidence however many nights there are (alpha spending,
Lan and DeMets 1983): so likely at most is it that a champion is ever replaced by a model that is not better.
"""

from pathlib import Path
from statistics import NormalDist

import duckdb
import numpy as np

from rnnlm.config import RegistryConfig
from rnnlm.records import Evidence
from rnnlm.sequences.sql_tables import table
from rnnlm.sql_statements import literal, statement

MAXIMUM_UNITS = 10_000  # of more documents, runs of neighbours are drawn together: a resample stays quick
DRAWN_AT_ONCE = 2_000_000  # units


def measure_evidence(losses: Path, config: RegistryConfig, comparison: int = 1) -> Evidence:
    """The verdict of the file that scoring.write_losses wrote, which must hold a document.

    comparison: the number of this comparison among those with the same champion, from 1.
    """
    parameters = {"losses": literal(losses)}
    with duckdb.connect(config={"threads": 1}) as connection:  # one thread adds up in one order
        (totals,) = table(connection, "promotion/measure_losses", parameters)
        pairs = connection.sql(statement("promotion/pair_losses"), params=parameters).to_arrow_table()
        excess_nats, byte_counts = (units(pairs.column(name).to_numpy()) for name in ("excess_nats", "byte_count"))
    differences = resampled_differences(excess_nats, byte_counts, config.resamples, config.seed)
    confidence = spent_confidence(config.confidence, comparison)
    lower, upper = bounds(totals["difference"], differences, confidence)
    return Evidence(
        **totals,
        lower=lower,
        upper=upper,
        units=len(excess_nats),
        confidence=confidence,
        resamples=config.resamples,
        comparison=comparison,
    )


def spent_confidence(confidence: float, comparison: int) -> float:
    """One-sided confidence of the k-th comparison: its chances of error add up to 1 - confidence over all k."""
    return 1 - (1 - confidence) / (comparison * (comparison + 1))


def bounds(difference: float, resampled: np.ndarray, confidence: float) -> tuple[float, float]:
    """One-sided bounds below and above the difference, from the standard error that the resamples show.

    A normal quantile: the resamples themselves say little of probabilities as small as one in 10,000.
    """
    margin = NormalDist().inv_cdf(confidence) * float(resampled.std(ddof=1))
    return difference - margin, difference + margin


def units(values: np.ndarray) -> np.ndarray:
    """Sums over runs of neighbours of about equal length, MAXIMUM_UNITS at most; (units,)."""
    count = min(len(values), MAXIMUM_UNITS)
    starts = np.linspace(0, len(values), count, endpoint=False).astype(np.int64)
    summed: np.ndarray = np.add.reduceat(values, starts)
    return summed


def resampled_differences(excess_nats: np.ndarray, byte_counts: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(resamples,) float64: nats per byte that the candidate costs more, each time of other units.

    excess_nats, byte_counts: (units,). The same seed gives the same draws on any machine.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    count = len(excess_nats)
    parts = []
    for first in range(0, resamples, at_once := max(1, DRAWN_AT_ONCE // count)):
        drawn = draw.integers(0, count, (min(at_once, resamples - first), count))
        # A ratio of sums, as in the whole: a long document weighs more than a short one.
        parts.append(excess_nats[drawn].sum(axis=1) / byte_counts[drawn].sum(axis=1))
    return np.concatenate(parts)
