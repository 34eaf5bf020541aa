"""A fixture that writes a dataset file of given rows, so that tests of n-gram models need no preparation stages."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from rnnlm.evaluation.ngram.ngram_database import NgramRecord, open_model
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import statement

Rows = list[list[int]]
WriteDataset = Callable[..., DatasetRecord]


def log_probabilities(model: NgramRecord, dataset: DatasetRecord | None) -> list[float]:
    """Return the natural logarithm of the probability of every predicted token in the test split, in stored order."""
    query = "select log_probability from log_probabilities where split = 'test' order by sequence_id, position"
    with open_model(model, dataset.database if dataset else None) as connection:
        return [value for (value,) in connection.execute(query).fetchall()]


@pytest.fixture
def write_dataset(tmp_path: Path) -> WriteDataset:
    """Return a function that writes rows for each split to a new file, and returns its record."""

    def write(vocabulary_size: int, **splits: Rows) -> DatasetRecord:
        folder = tmp_path / f"dataset-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        record = DatasetRecord(
            dataset_id=folder.name,
            folder=folder,
            corpus_name="rows",
            corpus_digest="0" * 64,
            mode="sentence",
            vocabulary_size=vocabulary_size,
            predicted_tokens={},
            sequence_counts={},
        )
        with duckdb.connect(str(record.database)) as connection:
            for name in ("split", "token_id", "shifted_sequences", "tokens"):
                connection.execute(statement(f"schema/{name}"))
            connection.executemany(
                "insert into tokens values (?, ?, 0)", [[index, f"w{index}"] for index in range(vocabulary_size)]
            )
            for split, rows in splits.items():
                connection.executemany(
                    "insert into shifted_sequences (split, sequence_id, token_ids) values (?, ?, ?)",
                    [[split, index, row] for index, row in enumerate(rows)],
                )
        return record

    return write
