"""What a dataset file holds, read back; the file is only ever opened read-only."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import numpy as np

from rnnlm.errors import DatasetError
from rnnlm.records import DatasetRecord, Split
from rnnlm.sequences.statements import statement


@dataclass(frozen=True)
class SplitTokens:
    """All rows of a split, end to end. Row i is token_ids[offsets[i]:offsets[i + 1]]."""

    token_ids: np.ndarray  # (tokens,) int32
    offsets: np.ndarray  # (rows + 1,) int64

    @property
    def predicted(self) -> np.ndarray:
        """How many tokens each row predicts: (rows,) int64, one less than it holds."""
        return np.diff(self.offsets) - 1


@contextmanager
def connect(dataset: DatasetRecord) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection, closed at the end. Any number of readers may hold one."""
    if not dataset.database.exists():
        raise DatasetError(f"{dataset.database}: missing; run again with --force sequences")
    connection = duckdb.connect(str(dataset.database), read_only=True)
    try:
        yield connection
    finally:
        connection.close()


def load_split(dataset: DatasetRecord, split: Split) -> SplitTokens:
    """A whole split in memory, rows in stored order."""
    with connect(dataset) as connection:
        table = connection.sql(statement("queries/read_split"), params={"split": split}).to_arrow_table()
    rows = table.column("token_ids").combine_chunks()
    lengths = rows.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return SplitTokens(rows.flatten().to_numpy(zero_copy_only=False).astype(np.int32), offsets)


def read_openings(dataset: DatasetRecord, count: int) -> list[list[int]]:
    """The first two words of `count` sequences spread evenly over the validation split."""
    with connect(dataset) as connection:
        rows = connection.execute(statement("queries/read_openings"), {"count": count}).fetchall()
    return [list(row[0]) for row in rows]


def training_counts(dataset: DatasetRecord) -> np.ndarray:
    """(vocabulary,) int64: how often each token is predicted in the training split."""
    with connect(dataset) as connection:
        rows = connection.execute(statement("queries/read_training_counts")).fetchall()
    return np.array([row[0] for row in rows], dtype=np.int64)
