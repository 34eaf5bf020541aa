"""A writer that fills the tables of a dataset's DuckDB file from tokenized shards."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import SequencesConfig
from rnnlm.sequences.corpus_shards import Shard, arrow_rows
from rnnlm.sequences.dataset_parts import rows_from_arrow
from rnnlm.sequences.part_writer import PartWriter, create_view
from rnnlm.sequences.segmentation import StreamCutter, TokenRows, join_rows
from rnnlm.sequences.sql_tables import create_token_type, insert, token_type
from rnnlm.storage.records import SPLITS, Split
from rnnlm.storage.sql_statements import statement
from rnnlm.tokenizers.text_tokenizer import TextTokenizer

TOKENS_AT_ONCE = 4_000_000  # The number of tokens that are inserted at once.


class TableWriter:
    """A writer that fills the tables of a new dataset file from tokenized shards.

    `parts` is a new folder for the sequences. If it is None, the sequences are stored in the DuckDB file.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tokenizer: TextTokenizer,
        config: SequencesConfig,
        parts: Path | None = None,
    ) -> None:
        self.connection = connection
        self.tokenizer = tokenizer
        self.config = config
        self.parts = parts
        connection.execute(statement("schema/split"))
        create_token_type(connection, tokenizer.vocabulary_size)
        for name in (
            "schema/documents",
            "schema/validation_lines",
            "schema/training_lines",
            "schema/tokens",
            "schema/dataset",
        ):
            connection.execute(statement(name))

    def write(self, shards: list[Shard]) -> None:
        if self.parts is None:
            self.insert_sequences(shards)
        else:
            self.write_parts(shards, self.parts)
        self.insert_documents(shards)
        self.insert_lines(shards)
        self.insert_tokens()

    def insert_sequences(self, shards: list[Shard]) -> None:
        """Insert the sequences split by split, so that the sequences of each split are contiguous in the file."""
        self.connection.execute(statement("schema/shifted_sequences"))
        for split in SPLITS:
            for rows, _ in self.sequences(shards, split):
                with_split = rows.append_column("split", [[split] * len(rows)])
                insert(self.connection, "queries/insert_sequences", with_split)

    def write_parts(self, shards: list[Shard], folder: Path) -> None:
        folder.mkdir()
        row_type = pa.list_(token_type(self.tokenizer.vocabulary_size))
        schema = pa.schema({"sequence_id": pa.int64(), "token_ids": row_type})
        for split in SPLITS:
            with closing(PartWriter(folder, split, schema)) as writer:
                for rows, token_count in self.sequences(shards, split):
                    writer.write(rows, token_count)
        create_view(self.connection, folder)

    def sequences(self, shards: list[Shard], split: Split) -> Iterator[tuple[pa.Table, int]]:
        """Yield the rows (sequence_id, token_ids) of a split in order, and their number of tokens.

        Each table has a few million tokens.
        """
        shard_rows = (stored_rows(shard.rows(split)) for shard in shards)
        first = 0
        for rows in in_batches(shard_rows if self.config.mode == "sentence" else self.blocks(shard_rows)):
            columns = {
                "sequence_id": np.arange(first, first + len(rows)),
                "token_ids": arrow_rows(rows, self.tokenizer.vocabulary_size),
            }
            yield pa.table(columns), len(rows.token_ids)
            first += len(rows)

    def insert_documents(self, shards: list[Shard]) -> None:
        self.insert_numbered("queries/insert_documents", "document_id", [shard.documents for shard in shards])

    def insert_lines(self, shards: list[Shard]) -> None:
        self.insert_numbered("queries/insert_validation_lines", "line_id", [shard.validation_lines for shard in shards])
        for shard in shards:
            insert(self.connection, "queries/insert_training_lines", pq.read_table(shard.training_lines))

    def insert_numbered(self, name: str, column: str, files: list[Path]) -> None:
        """Insert the rows of Parquet files with a statement of sql/, numbered in `column` from 0 over all files."""
        first = 0
        for file in files:
            rows = pq.read_table(file)
            insert(self.connection, name, rows.append_column(column, pa.array(np.arange(first, first + len(rows)))))
            first += len(rows)

    def insert_tokens(self) -> None:
        vocabulary_size = self.tokenizer.vocabulary_size
        token_ids = list(range(vocabulary_size))
        tokens = {
            "token_id": pa.array(token_ids, token_type(vocabulary_size)),
            "token": self.tokenizer.pieces(token_ids),
        }
        insert(self.connection, "queries/insert_tokens", pa.table(tokens))

    def blocks(self, texts: Iterable[TokenRows]) -> Iterator[TokenRows]:
        """Yield the blocks of a split's stream. A block may contain text from several shards."""
        cutter = StreamCutter(self.config.block_length)
        for text in texts:
            yield cutter.add(text.token_ids)
        yield cutter.finish()


def stored_rows(path: Path) -> TokenRows:
    """Return the rows in the Parquet file of a shard."""
    return rows_from_arrow(pq.read_table(path))


def in_batches(parts: Iterable[TokenRows]) -> Iterator[TokenRows]:
    """Yield the rows of several parts joined together, because many small insertions would be slow."""
    waiting: list[TokenRows] = []
    for part in parts:
        waiting.append(part)
        if sum(len(rows.token_ids) for rows in waiting) >= TOKENS_AT_ONCE:
            yield join_rows(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield join_rows(waiting)
