"""Read-only access to a dataset."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np

from rnnlm.errors import DatasetError
from rnnlm.sequences.dataset_parts import PartReader, locate_parts, rows_from_arrow
from rnnlm.sequences.segmentation import TokenRows
from rnnlm.storage.records import DatasetRecord, Split
from rnnlm.storage.sql_statements import statement
from rnnlm.tokenizers.text_tokenizer import EOS

MEMORY_LIMIT = "64MiB"  # The maximum memory of DuckDB while it reads a dataset.
# The number of tokens after which a new connection is opened, because a connection keeps what it has read in memory.
TOKENS_A_CONNECTION = 2_000_000


class StoredSplit:
    """The rows of a split, which are read by range in constant memory.

    After unpickling in another process, the object opens the files again.
    """

    def __init__(self, dataset: DatasetRecord, split: Split) -> None:
        self.database = dataset.database
        self.split = split
        self.row_count = dataset.sequence_counts.get(split, 0)
        self.predicted_count = dataset.predicted_tokens.get(split, 0)  # The number of predicted tokens in the split.
        self._parts = PartReader(dataset.parts, split) if dataset.parts.is_dir() else None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._tokens_since_opening = 0

    def __len__(self) -> int:
        return self.row_count

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_connection": None}

    def read(self, first: int, last: int) -> TokenRows:
        """Return the rows from `first` to `last` - 1 in stored order."""
        if self._parts is not None:
            return self._parts.read(first, last)
        if self._tokens_since_opening > TOKENS_A_CONNECTION:
            self.close()
        if self._connection is None:
            self._connection = open_read_only(self.database)
        range_ = {"split": self.split, "first": first, "last": last}
        rows = rows_from_arrow(self._connection.sql(statement("queries/read_rows"), params=range_).to_arrow_table())
        self._tokens_since_opening += len(rows.token_ids)
        return rows

    def close(self) -> None:
        """Close the files. The next call of read() opens them again."""
        if self._parts is not None:
            self._parts.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._tokens_since_opening = 0


@contextmanager
def connect(dataset: DatasetRecord) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a read-only connection. Several connections may be open at the same time."""
    connection = open_read_only(dataset.database)
    try:
        yield connection
    finally:
        connection.close()


def open_read_only(database: Path) -> duckdb.DuckDBPyConnection:
    if not database.exists():
        raise DatasetError(f"{database}: the file is missing; run again with --force sequences")
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(database.parent.parent / ".spilled"),
    }
    connection = duckdb.connect(str(database), read_only=True, config=settings)
    locate_parts(connection, database.parent)
    return connection


def read_openings(dataset: DatasetRecord, count: int, tokens: int) -> list[list[int]]:
    """Return the first `tokens` tokens of `count` sequences, which are evenly spread over the validation split."""
    with connect(dataset) as connection:
        parameters = {"count": count, "tokens": tokens}
        rows = connection.execute(statement("queries/read_openings"), parameters).fetchall()
    return [list(row[0]) for row in rows]


def training_counts(dataset: DatasetRecord) -> np.ndarray:
    """Return the number of times each token is a target in the training split, (vocabulary,) int64."""
    with connect(dataset) as connection:
        rows = connection.execute(statement("queries/read_training_counts")).fetchall()
    return np.array([row[0] for row in rows], dtype=np.int64)


def longest_row(dataset: DatasetRecord, split: Split) -> int:
    """Return the number of predicted tokens in a split's longest row, not counting a final `<eos>`.

    Return 0 if the split has no rows.
    """
    with connect(dataset) as connection:
        parameters = {"split": split, "eos_id": EOS}
        row = connection.execute(statement("queries/measure_longest_row"), parameters).fetchone()
    assert row is not None  # The query always returns one row.
    return int(row[0])
