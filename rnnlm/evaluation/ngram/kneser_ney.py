"""Interpolated modified Kneser-Ney smoothing (Chen & Goodman 1998), counted in DuckDB.

    p_k(w | context) = max(c(context, w) - D(c), 0) / total(context) + gamma(context) p_{k-1}(w | shorter context)

The recursion ends with the uniform distribution over the predictable vocabulary. At the highest order, c is the number
of occurrences of the n-gram. At lower orders, c is the number of distinct tokens on its left. N-grams that begin with
<bos> have no tokens on the left, so their occurrences are counted at every order. A context does not extend beyond its
row. Hence, if a sentence is split into several rows, the context in the previous row is lost.
"""

import logging
from pathlib import Path

import duckdb

from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import NgramRecord, create_tables, open_database, train_once
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import statement

logger = logging.getLogger(__name__)


def train_kneser_ney(home: Home, dataset: DatasetRecord, config: NgramConfig) -> NgramRecord:
    """Return the n-gram model of the dataset's training split. Train it unless it is stored."""

    def train(database: Path) -> None:
        with open_database(database, config, dataset.database) as connection:
            count_ngrams(connection, dataset.vocabulary_size, config.order)

    return train_once(home, config, {"dataset": dataset.dataset_id}, train)


def count_ngrams(
    connection: duckdb.DuckDBPyConnection, vocabulary_size: int, longest_order: int, first_row: int = 0
) -> None:
    """Write the model of the attached dataset's training split to an empty database.

    Rows are counted from `first_row` on. The orders are counted from the highest one down, because each order is
    derived from the order above it.
    """
    orders = range(longest_order, 0, -1)
    create_tables(connection, vocabulary_size)
    connection.execute(statement("ngram/view_positions"))
    connection.execute(statement("ngram/insert_vocabulary"))
    longest = {"ngram_order": longest_order, "first_row": first_row}
    connection.execute(statement("ngram/count_occurrences"), longest)
    connection.execute(statement("ngram/count_openings"), longest)
    for order in orders[1:]:
        connection.execute(statement("ngram/count_left_extensions"), {"ngram_order": order})
    for order in orders:
        connection.execute(statement("ngram/measure_discounts"), {"ngram_order": order})
        connection.execute(statement("ngram/measure_contexts"), {"ngram_order": order})
    fixed = [str(row[0]) for row in connection.execute(statement("ngram/read_unestimated_orders")).fetchall()]
    if fixed:
        logger.warning(
            "the discounts of n-grams of order %s cannot be estimated from this text, so they are 0.5, 1 and 1.5",
            ", ".join(fixed),
        )
