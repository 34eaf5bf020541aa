"""The rows of a large dataset, stored as Parquet parts next to its DuckDB file.

In the DuckDB file, `shifted_sequences` is a view of the parts, and a query on this view opens every part of the split.
The reader in this module opens a single part instead. The name of a part contains the split and the number of the first
row.
"""

from bisect import bisect_right
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.errors import DatasetError
from rnnlm.sequences.segmentation import TokenRows, ends, join_rows
from rnnlm.storage.records import Split
from rnnlm.storage.sql_statements import literal, statement


class PartReader:
    """A reader of a split's rows by range. After unpickling in another process, it opens the parts again."""

    def __init__(self, folder: Path, split: Split) -> None:
        self.paths = parts_of(folder, split)
        self.firsts = [int(path.stem.rpartition("-")[2]) for path in self.paths]
        self._open: OpenPart | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_open": None}

    def read(self, first: int, last: int) -> TokenRows:
        """Return the rows from `first` to `last` - 1 in stored order.

        Raise DatasetError if a part or a row is missing.
        """
        pieces = []
        while first < last:
            number = max(0, bisect_right(self.firsts, first) - 1)
            start = self.firsts[number]
            piece = self.part(number).read(first - start, last - start)
            if not len(piece):
                raise DatasetError(f"{self.paths[number]}: row {first:,} is missing; run again with --force sequences")
            pieces.append(piece)
            first += len(piece)
        return pieces[0] if len(pieces) == 1 else join_rows(pieces)

    def part(self, number: int) -> "OpenPart":
        """Return an open part, after closing the previous one.

        The metadata of a part with hundreds of row groups needs much memory, so only one part is open at a time.
        """
        path = self.paths[number]
        if self._open is None or self._open.path != path:
            self.close()
            self._open = OpenPart(path)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.file.close()
            self._open = None


class OpenPart:
    """An open part, with the numbers of the first rows of its row groups."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = pq.ParquetFile(path)
        except FileNotFoundError as error:
            raise DatasetError(f"{path}: missing; run again with --force sequences") from error
        groups = range(self.file.metadata.num_row_groups)
        self.offsets = ends(np.array([self.file.metadata.row_group(group).num_rows for group in groups], np.int64))

    def read(self, first: int, last: int) -> TokenRows:
        """Return the rows `first` to `last` - 1 of the part, or fewer rows if the part has no more."""
        last = min(last, int(self.offsets[-1]))
        if first >= last:
            return TokenRows(np.zeros(0, np.int32), np.zeros(1, np.int64))
        low = int(np.searchsorted(self.offsets, first, side="right")) - 1
        high = int(np.searchsorted(self.offsets, last, side="left"))
        table = self.file.read_row_groups(range(low, high), columns=["token_ids"], use_threads=False)
        return rows_from_arrow(table).read(first - int(self.offsets[low]), last - int(self.offsets[low]))


def rows_from_arrow(table: pa.Table) -> TokenRows:
    """Return the rows in the `token_ids` column of a table."""
    column = table.column("token_ids").combine_chunks()
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    return TokenRows(column.flatten().to_numpy(zero_copy_only=False).astype(np.int32), ends(lengths))


def parts_of(folder: Path, split: Split) -> list[Path]:
    """Return the parts of a split in the order of their rows."""
    return sorted(folder.glob(f"{split}-*.parquet"))


def locate_parts(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Set the folder in which a connection looks for the parts of a dataset.

    A dataset without parts is not affected.
    """
    # DuckDB's setting file_search_path is not used, because a file of the same name in the working directory would be
    # found first.
    connection.execute(statement("queries/locate_parts"), {"folder": literal(folder)})
