"""Is the difference more than chance? The paired bootstrap over documents (Koehn 2004, Efron and Tibshirani 1993).

From the n units n are drawn with replacement, and the difference in nats per byte is computed anew, many times. The
spread of the results is that of another sample of the same kind of text. Tokens would be the wrong units: those of
one document go up and down together. NumPy draws; all the rest is SQL.
"""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from rnnlm.config import RegistryConfig
from rnnlm.records import Evidence
from rnnlm.sequences.tables import table
from rnnlm.statements import literal, statement

MAXIMUM_UNITS = 10_000  # of more documents, runs of neighbours are drawn together: a resample stays quick
DRAWN_AT_ONCE = 2_000_000  # units


def measure_evidence(losses: Path, config: RegistryConfig) -> Evidence:
    """The verdict of the file that scoring.write_losses wrote, which must hold a document."""
    parameters = {"losses": literal(losses)}
    with duckdb.connect(config={"threads": 1}) as connection:  # one thread adds up in one order
        (totals,) = table(connection, "promotion/measure_losses", parameters)
        pairs = connection.sql(statement("promotion/pair_losses"), params=parameters).to_arrow_table()
        excess_nats, byte_counts = (units(pairs.column(name).to_numpy()) for name in ("excess_nats", "byte_count"))
        differences = resampled_differences(excess_nats, byte_counts, config.resamples, config.seed)
        connection.register("resamples", pa.table({"difference": differences}))
        (bounds,) = table(connection, "promotion/measure_resamples", {"confidence": config.confidence})
    return Evidence(
        **totals,
        **bounds,
        units=len(excess_nats),
        confidence=config.confidence,
        resamples=config.resamples,
    )


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
