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
NO_VALUE = object()


class TableError(CorpusError):
    """A row is not what its format says."""


class NoColumnError(TableError):
    """A table lacks a column that was asked for."""

    def __init__(self, label: str, column: str, there: list[str]) -> None:
        names = ", ".join(printable(str(name)) for name in there[:10]) or "none"
        more = f" and {len(there) - 10} more" if len(there) > 10 else ""
        self.problem = f"{label}: has no column {column!r}; it has: {names}{more}"
        super().__init__(f"{self.problem};\nset corpus.column")


def text_column(config: CorpusConfig) -> str:
    return config.column or "text"


def no_text(label: str, column: str, got: str) -> "TableError":
    return TableError(f"{label}: column {column!r} holds {got}, expected text; set corpus.column")


def csv_rows(pieces: Iterator[str], label: str, columns: list[str], kind: str) -> Iterator[tuple[str, ...]]:
    """The columns' cells of each row. kind: csv or tsv. The first row names the columns; empty rows are skipped."""
    csv.field_size_limit(MAXIMUM_CELL_CHARACTERS)
    rows = csv.reader(single_lines(pieces), dialect="excel" if kind == "csv" else "excel-tab", strict=True)
    try:
        heads = next(rows, [])
        if not heads:
            return
        for column in columns:
            if column not in heads:
                raise NoColumnError(label, column, heads)
        places = [heads.index(column) for column in columns]
        for number, row in enumerate(rows, start=2):
            if not row:
                continue
            if len(row) <= max(places):
                column = columns[places.index(max(places))]
                raise TableError(
                    f"{label}: row {number} has {len(row)} cells, expected at least {max(places) + 1} for column "
                    f"{column!r}; fix the row"
                )
            yield tuple(row[place] for place in places)
    except csv.Error as error:
        raise TableError(f"{label}: line {rows.line_num} is not {kind} ({error}); fix it") from None


def csv_cells(pieces: Iterator[str], label: str, column: str, kind: str, decoding: Decoding) -> Iterator[str]:
    """The column's cells; csv_rows says the rest."""
    for (cell,) in csv_rows(pieces, label, [column], kind):
        yield tidy_cell(cell, label, decoding)


def json_objects(pieces: Iterator[str], label: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The object of each line, with the line's number from 1; empty lines are skipped."""
    for number, line in enumerate(single_lines(pieces), start=1):
        if line.isspace():
            continue
        try:
            row: Any = json.loads(line, strict=False)  # control characters within strings are read
        except (ValueError, RecursionError) as error:
            raise TableError(
                f"{label}: line {number} is not JSON ({printable(str(error))});\n"
                "expected one object per line; set another corpus.format if it is another format"
            ) from None
        if not isinstance(row, dict):
            raise TableError(f"{label}: line {number} is a JSON {type(row).__name__}, expected one object per line")
        yield number, row


def json_cells(pieces: Iterator[str], label: str, column: str, decoding: Decoding) -> Iterator[str]:
    """The column's cells, one object per line; null is skipped."""
    for number, row in json_objects(pieces, label):
        cell = cell_of(row, column)
        if cell is NO_VALUE:
            raise NoColumnError(f"{label}: line {number}", column, list(row))
        if isinstance(cell, str):
            yield tidy_cell(cell, label, decoding)
        elif cell is not None:
            raise no_text(f"{label}: line {number}", column, type(cell).__name__)


def cell_of(row: dict[str, Any], column: str) -> Any:
    """The column's value, or NO_VALUE; `data.body` is also `body` within the object `data`."""
    if column in row:
        return row[column]
    for part in column.split("."):
        if not isinstance(row, dict) or part not in row:
            return NO_VALUE
        row = row[part]
    return row


def parquet_rows(
    path: Path, label: str, columns: list[str], decoding: Decoding, meter: Meter
) -> Iterator[tuple[Any, ...]]:
    """The columns' cells of each row, a few hundred rows at a time, as Python objects. Columns: as of cell_of()."""
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            schema = table.schema_arrow
            paths = [[column] if column in schema.names else column.split(".") for column in columns]
            kinds = [kind_of_column(schema, parts, label, ".".join(parts)) for parts in paths]
            for batch in table.iter_batches(PARQUET_ROWS_AT_ONCE, columns=columns, use_threads=False):
                found = [
                    cells_in(batch, parts, kind, label, decoding, meter)
                    for parts, kind in zip(paths, kinds, strict=True)
                ]
                yield from zip(*found, strict=True)
    except CorpusError:
        raise
    except Exception as error:  # pyarrow raises its own, OSError, ValueError, MemoryError, … on damaged data
        raise damaged(label, "Parquet", error) from error


def kind_of_column(schema: Any, parts: list[str], label: str, column: str) -> Any:
    """The Arrow type of a column, which may lie within structs. NoColumnError if it is not there."""
    import pyarrow

    kind = pyarrow.struct(list(schema))
    for part in parts:
        if not pyarrow.types.is_struct(kind) or kind.get_field_index(part) < 0:
            raise NoColumnError(label, column, schema.names)
        kind = kind.field(part).type
    return kind.value_type if pyarrow.types.is_dictionary(kind) else kind


def cells_in(batch: Any, parts: list[str], kind: Any, label: str, decoding: Decoding, meter: Meter) -> list[Any]:
    """A column's values. Text is decoded here: Arrow does not check that a string is UTF-8."""
    import pyarrow
    import pyarrow.compute

    cells = batch.column(parts[0])
    for part in parts[1:]:
        cells = pyarrow.compute.struct_field(cells, part)
    if is_text(kind):
        cells = cells.cast(kind).cast(pyarrow.large_binary())
    meter.add(cells.nbytes, label)
    values: list[Any] = cells.to_pylist()
    return [decoded(value, label, decoding) for value in values] if is_text(kind) else values


def is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def parquet_cells(path: Path, label: str, column: str, decoding: Decoding, meter: Meter) -> Iterator[str]:
    """The column's cells; null is skipped."""
    for (cell,) in parquet_rows(path, label, [column], decoding, meter):
        if isinstance(cell, str):
            yield tidy_cell(cell, label, decoding)
        elif cell is not None:
            raise no_text(label, column, type(cell).__name__)


def decoded(cell: bytes | None, label: str, decoding: Decoding) -> str | None:
    """The cell in UTF-8, as Parquet asks for it, else by a guess or with U+FFFD. None stays None."""
    if cell is None:
        return None
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"a cell's byte {error.start} is not utf-8: {error.reason}"
    if decoding.undecodable == "refuse":
        raise CorpusError(f"{label}: {place}; set corpus.undecodable=replace")
    guess = guess_around(cell, 0, "utf-8") if decoding.undecodable == "guess" else None
    decoding.note(label, f"{place}; read {f'as {guess}, by a guess' if guess else 'with U+FFFD in its place'}")
    return cell.decode(guess or "utf-8", "replace")
