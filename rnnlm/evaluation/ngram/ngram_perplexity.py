"""Perplexity of an n-gram model on a split, summed in DuckDB."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from rnnlm.errors import DatasetError
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import NgramRecord, open_model
from rnnlm.metrics import Score
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.records import DatasetRecord, Split
from rnnlm.storage.sql_statements import statement

SCORES = {"kneser-ney": "ngram/view_kneser_ney_probabilities", "textbook": "ngram/view_textbook_scores"}


def score_ngram_split(model: NgramRecord, dataset: DatasetRecord | None, split: Split, config: NgramConfig) -> Score:
    """The score of a whole split. The textbook's model holds its own text and takes no dataset.

    Its scores sum to more than 1, so that its figure is not a perplexity.
    """
    with open_scores(model, dataset.database if dataset else None, config) as connection:
        return measure_split(connection, split)


def log_probabilities(
    model: NgramRecord, dataset: DatasetRecord | None, split: Split, config: NgramConfig
) -> Iterator[pa.RecordBatch]:
    """(sequence_id, position, log_probability) of every predicted token of a split, in stored order.

    position counts a row's targets from 0; natural logarithms. For interpolation with another model.
    """
    with open_scores(model, dataset.database if dataset else None, config) as connection:
        query = statement("ngram/read_log_probabilities")
        yield from connection.sql(query, params={"split": split}).to_arrow_reader()


def unknown_rate(model: NgramRecord, config: NgramConfig) -> float:
    """The share of the textbook's test words that are not in its training part."""
    with open_scores(model, None, config) as connection:
        row = connection.execute(statement("ngram/measure_unknown_rate"), {"split": "test"}).fetchone()
    assert row is not None  # one row, whatever the text holds
    return float(row[0])


@contextmanager
def open_scores(model: NgramRecord, dataset: Path | None, config: NgramConfig) -> Iterator[duckdb.DuckDBPyConnection]:
    """The model's file, read-only, with the view log_probabilities: over the dataset, or over its own positions."""
    with open_model(model, config, dataset) as connection:
        connection.execute(statement(SCORES[model.method]))
        yield connection


def measure_split(connection: duckdb.DuckDBPyConnection, split: Split) -> Score:
    (row,) = table(connection, "ngram/measure_score", {"split": split})
    if not row["tokens"]:
        raise DatasetError(f"the {split} split holds no token to predict; give a longer text")
    return Score(**row)
