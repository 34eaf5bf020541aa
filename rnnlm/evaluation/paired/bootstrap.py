"""The paired bootstrap over documents: is a difference more than chance? (Koehn 2004, Efron and Tibshirani 1993)

Draw n of the n units with replacement and compute the difference in nats per byte, many times. The spread of the
results is that of other samples of the same kind of text. Tokens would be the wrong units: those of one document are
correlated. Blocks of lines of one document are, too: their correlation widens the bounds (Newey and West 1987).

With registry.policy=better a champion is compared with many candidates on much the same documents, one every night.
Each chance of a false alarm is small, but they add up. So the k-th comparison with one champion may err with
probability (1 - confidence) / (k (k + 1)). These sum to 1 - confidence over any number of nights (alpha spending, Lan
and DeMets 1983): at most the probability that a champion is ever replaced by a model that is not better.
"""

from pathlib import Path
from statistics import NormalDist
from typing import Any

import duckdb
import numpy as np

from rnnlm.config import RegistryConfig
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.result_records import Evidence
from rnnlm.storage.sql_statements import literal, statement

MAXIMUM_UNITS = 10_000  # of more documents, runs of neighbours are drawn together, to keep a resample quick
DRAWN_AT_ONCE = 2_000_000  # units


def measure_evidence(losses: Path, config: RegistryConfig, comparison: int = 1, *, blocks: bool = False) -> Evidence:
    """The evidence in a file of write_paired_losses, which must hold at least one document.

    comparison: number of this comparison among those with the same champion, from 1. blocks: the documents are blocks.
    """
    parameters = {"losses": literal(losses)}
    with duckdb.connect(config={"threads": 1}) as connection:  # one thread sums in one order
        (totals,) = table(connection, "promotion/measure_losses", parameters)
        pairs = connection.sql(statement("promotion/pair_losses"), params=parameters).to_arrow_table()
        excess_nats, byte_counts = (unit_sums(pairs.column(name).to_numpy()) for name in ("excess_nats", "byte_count"))
    return evidence_from(totals, excess_nats, byte_counts, config, comparison, blocks=blocks)


def evidence_from(
    totals: dict[str, Any],
    excess_nats: np.ndarray,
    byte_counts: np.ndarray,
    config: RegistryConfig,
    comparison: int = 1,
    *,
    blocks: bool = False,
) -> Evidence:
    """totals: the fields of Evidence that sums give. excess_nats, byte_counts: (units,), in the order of the text."""
    differences = resampled_differences(excess_nats, byte_counts, config.resamples, config.seed)
    confidence = config.confidence if config.policy == "newer" else spent_confidence(config.confidence, comparison)
    widening = correlation_widening(excess_nats, byte_counts) if blocks else 1.0
    lower, upper = confidence_bounds(totals["difference"], differences, confidence, widening)
    return Evidence(
        **totals,
        blocks=blocks,
        lower=lower,
        upper=upper,
        units=len(excess_nats),
        confidence=confidence,
        resamples=config.resamples,
        comparison=comparison,
    )


def spent_confidence(confidence: float, comparison: int) -> float:
    """One-sided confidence of the k-th comparison; the error probabilities sum to 1 - confidence over all k."""
    return 1 - (1 - confidence) / (comparison * (comparison + 1))


def correlation_widening(excess_nats: np.ndarray, byte_counts: np.ndarray) -> float:
    """How many times larger the standard error is because neighbouring units are correlated; at least 1.

    With Bartlett's weights over lags up to the cube root of the number of units.
    """
    residuals = excess_nats - byte_counts * (excess_nats.sum() / byte_counts.sum())
    variance = float((residuals**2).sum())
    if not variance > 0:
        return 1.0
    lags = round(len(residuals) ** (1 / 3))
    correlations = (float((residuals[:-lag] * residuals[lag:]).sum()) / variance for lag in range(1, lags + 1))
    return max(1.0, 1 + 2 * sum((1 - lag / (lags + 1)) * one for lag, one in enumerate(correlations, start=1))) ** 0.5


def confidence_bounds(
    difference: float, resampled: np.ndarray, confidence: float, widening: float = 1.0
) -> tuple[float, float]:
    """One-sided bounds below and above the difference, from the standard error of the resamples.

    A normal quantile: the resamples themselves say little about probabilities as small as one in 10,000.
    """
    margin = NormalDist().inv_cdf(confidence) * widening * float(resampled.std(ddof=1))
    return difference - margin, difference + margin


def unit_sums(values: np.ndarray) -> np.ndarray:
    """(units,), at most MAXIMUM_UNITS: sums over runs of neighbours of about equal length."""
    count = min(len(values), MAXIMUM_UNITS)
    starts = np.linspace(0, len(values), count, endpoint=False).astype(np.int64)
    summed: np.ndarray = np.add.reduceat(values, starts)
    return summed


def resampled_differences(excess_nats: np.ndarray, byte_counts: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(resamples,) float64: by how many nats per byte the candidate costs more, each from another draw of units.

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
