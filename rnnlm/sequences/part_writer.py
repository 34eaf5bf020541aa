"""A writer of the Parquet parts with the rows of a large dataset; see dataset_parts.py."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.sequences.dataset_parts import locate_parts, parts_of
from rnnlm.storage.records import SPLITS, Split
from rnnlm.storage.sql_statements import statement

# The number of tokens after which a part ends. With two bytes per token, a part has about 128 MiB.
PART_TOKENS = 1 << 26
# The number of tokens in a row group, the smallest unit that is read. It is a quarter of a chunk in batches.py.
GROUP_TOKENS = 1 << 16


class PartWriter:
    """A writer that stores a split's rows in parts, in order. An empty split gets one part without rows."""

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
            # No dictionary is used, because it would take more space in each row group. Parquet stores a two-byte
            # integer in four bytes. BYTE_STREAM_SPLIT puts the unused bytes together, where they compress well.
            use_dictionary=False,
            column_encoding={"token_ids.list.element": "BYTE_STREAM_SPLIT"},
            write_statistics=["sequence_id"],  # With these statistics, a query for row numbers skips row groups.
        )

    def write(self, rows: pa.Table, token_count: int) -> None:
        """Add rows with the columns sequence_id and token_ids. `rows` must not be empty."""
        if self.tokens_in_part >= PART_TOKENS:
            self.file.close()
            self.file = self.new_part(rows.column("sequence_id")[0].as_py())
            self.tokens_in_part = 0
        self.file.write_table(rows, row_group_size=max(1, GROUP_TOKENS * len(rows) // token_count))
        self.tokens_in_part += token_count

    def close(self) -> None:
        self.file.close()


def create_view(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Create the `shifted_sequences` view of the parts in `folder`, which is next to the database."""
    text = statement("schema/shifted_sequences_of_parts")
    for split in SPLITS:  # The definition of a view contains the paths, because a view cannot have parameters.
        files = ", ".join(f"'{folder.name}/{path.name}'" for path in parts_of(folder, split))
        text = text.replace(f"${split}_files", f"[{files}]")
    locate_parts(connection, folder.parent)
    connection.execute(text)
