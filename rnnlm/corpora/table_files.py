"""One text column of csv, tsv, JSON lines and Parquet files, row by row."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rnnlm.config import CorpusConfig
from rnnlm.corpora.compression import Meter, damaged
from rnnlm.corpora.text_encoding import Decoding, guess_around, printable, single_lines, tidy_cell
from rnnlm.errors import CorpusError

MAXIMUM_CELL_CHARACTERS = 64 << 20  # of a csv cell: an unclosed quote would read the whole file
PARQUET_ROWS_AT_ONCE = 256
PARQUET_MARK = b"PAR1\x15"  # with the beginning of every first header: text may begin with PAR1
ABSENT = object()


class TableError(CorpusError):
    """A row is not what its format says."""


def text_column(config: CorpusConfig) -> str:
    return config.column or "text"


def no_column(label: str, column: str, there: list[str]) -> "TableError":
    names = ", ".join(printable(str(name)) for name in there[:10]) or "none"
    more = f" and {len(there) - 10} more" if len(there) > 10 else ""
    return TableError(f"{label}: has no column {column!r}; it has: {names}{more};\nset corpus.column")


def no_text(label: str, column: str, got: str) -> "TableError":
    return TableError(f"{label}: column {column!r} holds {got}, expected text; set corpus.column")


def csv_cells(pieces: Iterator[str], label: str, column: str, kind: str, decoding: Decoding) -> Iterator[str]:
    """The column's cells. kind: csv or tsv. The first row names the columns; empty rows are skipped."""
    csv.field_size_limit(MAXIMUM_CELL_CHARACTERS)
    rows = csv.reader(single_lines(pieces), dialect="excel" if kind == "csv" else "excel-tab", strict=True)
    try:
        heads = next(rows, [])
        if not heads:
            return
        if column not in heads:
            raise no_column(label, column, heads)
        place = heads.index(column)
        for number, row in enumerate(rows, start=2):
            if not row:
                continue
            if len(row) <= place:
                raise TableError(
                    f"{label}: row {number} has {len(row)} cells, expected at least {place + 1} for column {column!r}; "
                    "fix the row"
                )
            yield tidy_cell(row[place], label, decoding)
    except csv.Error as error:
        raise TableError(f"{label}: line {rows.line_num} is not {kind} ({error}); fix it") from None


def json_cells(pieces: Iterator[str], label: str, column: str, decoding: Decoding) -> Iterator[str]:
    """The column's cells, one object per line; null and empty lines are skipped."""
    for number, line in enumerate(single_lines(pieces), start=1):
        if line.isspace():
            continue
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TableError(
                f"{label}: line {number} is not JSON ({printable(str(error))});\n"
                "expected one object per line; set another corpus.format if it is another format"
            ) from None
        if not isinstance(row, dict):
            raise TableError(f"{label}: line {number} is a JSON {type(row).__name__}, expected one object per line")
        cell = cell_of(row, column)
        if cell is ABSENT:
            raise no_column(f"{label}: line {number}", column, list(row))
        if isinstance(cell, str):
            yield tidy_cell(cell, label, decoding)
        elif cell is not None:
            raise no_text(f"{label}: line {number}", column, type(cell).__name__)


def cell_of(row: dict[str, Any], column: str) -> Any:
    """The column's value, or ABSENT; `data.body` is also `body` within the object `data`."""
    if column in row:
        return row[column]
    for part in column.split("."):
        if not isinstance(row, dict) or part not in row:
            return ABSENT
        row = row[part]
    return row


def parquet_cells(path: Path, label: str, column: str, decoding: Decoding, meter: Meter) -> Iterator[str]:
    """The column's cells, a few hundred rows at a time; null is skipped. column: as of cell_of()."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            schema = table.schema_arrow
            parts = [column] if column in schema.names else column.split(".")
            kind = pyarrow.struct(list(schema))
            for part in parts:
                if not pyarrow.types.is_struct(kind) or kind.get_field_index(part) < 0:
                    raise no_column(label, column, schema.names)
                kind = kind.field(part).type
            if pyarrow.types.is_dictionary(kind):
                kind = kind.value_type
            if not (
                pyarrow.types.is_string(kind)
                or pyarrow.types.is_large_string(kind)
                or pyarrow.types.is_string_view(kind)
            ):
                raise no_text(label, column, printable(str(kind)))
            for batch in table.iter_batches(PARQUET_ROWS_AT_ONCE, columns=[column], use_threads=False):
                # As bytes: Arrow does not check that a string is UTF-8.
                cells = batch.column(0)
                for part in parts[1:]:
                    cells = pyarrow.compute.struct_field(cells, part)
                cells = cells.cast(kind).cast(pyarrow.large_binary())
                meter.add(cells.nbytes, label)
                for cell in cells.to_pylist():
                    if cell is not None:
                        yield tidy_cell(decoded(cell, label, decoding), label, decoding)
    except CorpusError:
        raise
    except Exception as error:  # pyarrow raises its own, OSError, ValueError, MemoryError, … on damaged data
        raise damaged(label, "Parquet", error) from error


def decoded(cell: bytes, label: str, decoding: Decoding) -> str:
    """The cell in UTF-8, as Parquet asks for it, else by a guess or with U+FFFD."""
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"a cell's byte {error.start} is not utf-8: {error.reason}"
    if decoding.undecodable == "refuse":
        raise CorpusError(f"{label}: {place}; set corpus.undecodable=replace")
    guess = guess_around(cell, 0, "utf-8") if decoding.undecodable == "guess" else None
    decoding.note(label, f"{place}; read {f'as {guess}, by a guess' if guess else 'with U+FFFD in its place'}")
    return cell.decode(guess or "utf-8", "replace")
