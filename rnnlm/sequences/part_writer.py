"""Write the rows of a large dataset as Parquet parts; see dataset_parts.py."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.sequences.dataset_parts import locate_parts, parts_of
from rnnlm.storage.records import SPLITS, Split
from rnnlm.storage.sql_statements import statement

PART_TOKENS = 1 << 26  # a part ends with the insertion that reaches it: 128 MiB at two bytes a token
GROUP_TOKENS = 1 << 16  # of a row group, the least that is read: a quarter of a chunk of batches.py


class PartWriter:
    """Writes the rows of a split, in order, as parts. An empty split is one part without rows."""

    def __init__(self, folder: Path, split: Split, schema: pa.Schema) -> None:
        self.folder = folder
        self.split = split
        self.schema = schema
        self.file = self.new_part(0)
        self.tokens_in_part = 0

    def new_part(self, first: int) -> pq.ParquetWriter:
        path = self.folder / f"{self.split}-{first:012d}.parquet"
        return pq.ParquetWriter(
            path,
            self.schema,
            compression="zstd",
            # Parquet has no two-byte integers: the empty bytes go together. A dictionary for each group is larger.
            use_dictionary=False,
            column_encoding={"token_ids.list.element": "BYTE_STREAM_SPLIT"},
            write_statistics=["sequence_id"],  # a query by row numbers leaves out row groups
        )

    def write(self, rows: pa.Table, token_count: int) -> None:
        """Add rows (sequence_id, token_ids), at least one."""
        if self.tokens_in_part >= PART_TOKENS:
            self.file.close()
            self.file = self.new_part(rows.column("sequence_id")[0].as_py())
            self.tokens_in_part = 0
        self.file.write_table(rows, row_group_size=max(1, GROUP_TOKENS * len(rows) // token_count))
        self.tokens_in_part += token_count

    def close(self) -> None:
        self.file.close()


def create_view(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Define `shifted_sequences` over the parts in `folder`, in a database beside it."""
    text = statement("schema/shifted_sequences_of_parts")
    for split in SPLITS:  # a view takes no parameters
        files = ", ".join(f"'{folder.name}/{path.name}'" for path in parts_of(folder, split))
        text = text.replace(f"${split}_files", f"[{files}]")
    locate_parts(connection, folder.parent)
    connection.execute(text)
