"""Run sql/surprise on a run's Parquet files."""

from pathlib import Path
from typing import Any

import duckdb

from rnnlm.display.text_layout import TableRows
from rnnlm.evaluation.surprise.token_loss_files import SEQUENCES, TOKENS
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.records import Record
from rnnlm.storage.sql_statements import literal

SENTENCES_SHOWN = 10
MINIMUM_TOKENS = 5  # of a sentence among the worst


class SurpriseTables(Record):
    """Tables as lists of rows; the headers in sql/surprise explain their columns."""

    share: float = 1.0  # of the sentences: below 1, everything here is about a random sample of them
    tokens: int
    nll_nats: float  # the sum
    perplexity: float
    worst_sentences: TableRows
    by_position: TableRows
    by_frequency: TableRows
    by_neighbours: TableRows


def query_surprise(folder: Path) -> SurpriseTables:
    """All tables over the losses in `folder`."""
    of_tokens = {"tokens": literal(folder / TOKENS)}
    worst = {"sequences": literal(folder / SEQUENCES), "count": SENTENCES_SHOWN, "minimum_tokens": MINIMUM_TOKENS}
    # One thread sums in one order: the same files give the same figures to the last bit.
    settings: dict[str, Any] = {
        "memory_limit": "512MiB",
        "temp_directory": str(folder / ".spilled"),
        "threads": 1,
    }
    with duckdb.connect(config=settings) as connection:
        (totals,) = table(connection, "surprise/measure_split", of_tokens)
        return SurpriseTables(
            **totals,
            worst_sentences=table(connection, "surprise/worst_sentences", worst),
            by_position=table(connection, "surprise/by_position", of_tokens),
            by_frequency=table(connection, "surprise/by_frequency", of_tokens),
            by_neighbours=table(connection, "surprise/by_neighbours", of_tokens),
        )
