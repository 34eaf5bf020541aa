"""One text column of csv, tsv, JSON lines and Parquet files, row by row."""

import csv
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.corpora.compression import Meter, damage_explained
from rnnlm.corpora.text_encoding import GUESSED_BYTES, Decoding, guess_encoding, printable, single_lines, sound_text
from rnnlm.errors import CorpusError

CSV_DIALECTS = {"csv": "excel", "tsv": "excel-tab"}
MAXIMUM_CELL_CHARACTERS = 64 << 20  # of a csv cell: an unclosed quote would read the whole file
PARQUET_ROWS_AT_ONCE = 256
PARQUET_MARK = b"PAR1\x15"  # with the beginning of every first header: text may begin with PAR1
MAXIMUM_JSON_CHARACTERS = 64 << 20  # of a line, and of a file that is one JSON value, which is read whole
JSON_ADVICE = "is one JSON value", "write one object per line, as with: jq -c '.[]'"
SEARCHED_ROWS = 1_024  # of JSON lines, for a column that not all objects have
NO_VALUE = object()
parse_json = json.JSONDecoder(strict=False).decode  # control characters within strings are read
Row = tuple[str, tuple[Any, ...]]  # where it is, for messages; the cells of the wanted columns


class TableError(CorpusError):
    """A row that is not in the format of its table."""


class NoColumnError(TableError):
    """A table lacks a column that was asked for."""

    def __init__(self, label: str, column: str, there: list[str]) -> None:
        names = ", ".join(printable(str(name)) for name in there[:10]) or "none"
        more = f" and {len(there) - 10} more" if len(there) > 10 else ""
        self.problem = f"{label}: has no column {column!r}; it has: {names}{more}"
        super().__init__(f"{self.problem};\nset corpus.column")


def column_texts(rows: Iterable[Row], label: str, column: str, decoding: Decoding) -> Iterator[str]:
    """The texts of rows of one cell, with line feeds as line ends, one of them at the end; null is skipped."""
    for where, (cell,) in rows:
        if isinstance(cell, str):
            text = sound_text(cell, label, decoding).replace("\r\n", "\n").replace("\r", "\n")
            yield text if text.endswith("\n") else text + "\n"
        elif cell is not None:
            raise TableError(
                f"{where}: column {column!r} holds {type(cell).__name__}, expected text; set corpus.column"
            )


def csv_reader(lines: Iterator[str], kind: str) -> Any:
    """A csv.reader for csv or tsv; csv.Error for what is not."""
    csv.field_size_limit(MAXIMUM_CELL_CHARACTERS)
    return csv.reader(lines, dialect=CSV_DIALECTS[kind], strict=True)


def csv_rows(pieces: Iterator[str], label: str, columns: list[str], kind: str) -> Iterator[Row]:
    """The columns' cells of each row. kind: csv or tsv. The first row names the columns; empty rows are skipped."""
    rows = csv_reader(single_lines(without_long_lines(pieces, label, "has a line", "fix it")), kind)
    try:
        heads: list[str] = next(rows, [])
        if not heads:
            return
        for column in columns:
            if column not in heads:
                raise NoColumnError(label, column, heads)
        places = [heads.index(column) for column in columns]
        last = max(places)
        for number, row in enumerate(rows, start=2):
            if not row:
                continue
            if len(row) <= last:
                raise TableError(
                    f"{label}: row {number} has {len(row)} cells, expected at least {last + 1} for column "
                    f"{heads[last]!r}; fix the row"
                )
            yield label, tuple(row[place] for place in places)
    except csv.Error as error:
        raise TableError(f"{label}: line {rows.line_num} is not {kind} ({error}); fix it") from None


def json_rows(pieces: Iterator[str], label: str, columns: list[str], *, sparse: bool = False) -> Iterator[Row]:
    """The columns' cells of the object in each line; empty lines are skipped.

    NoColumnError if an object lacks a column. sparse: if none of the first SEARCHED_ROWS has it; its cells are None.
    """
    objects = json_objects(pieces, label)
    first = list(itertools.islice(objects, SEARCHED_ROWS)) if sparse else []
    for column in columns:
        if first and all(cell_of(row, column) is NO_VALUE for _, row in first):
            raise NoColumnError(label, column, list(first[0][1]))
    for where, row in itertools.chain(first, objects):
        cells = [cell_of(row, column) for column in columns]
        if NO_VALUE in cells:
            if not sparse:
                raise NoColumnError(where, columns[cells.index(NO_VALUE)], list(row))
            cells = [None if cell is NO_VALUE else cell for cell in cells]
        yield where, tuple(cells)


def json_objects(pieces: Iterator[str], label: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, the object) of each line; a file that is one JSON value gives it, or the objects of its list."""
    lines = single_lines(without_long_lines(pieces, label, *JSON_ADVICE))
    first = 0  # number of the first line that is not blank
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        first = first or number
        where = f"{label}: line {number}"
        try:
            row: Any = parse_json(line)
        except (ValueError, RecursionError) as error:
            row = json_value(itertools.chain([line], lines), label) if number == first else None
            if row is None:
                raise TableError(
                    f"{where} is not JSON ({printable(str(error))});\n"
                    "expected one object per line; set another corpus.format if it is another format"
                ) from None
        for value in row if isinstance(row, list) and number == first else [row]:
            if not isinstance(value, dict):
                raise TableError(f"{where} is a JSON {type(value).__name__}, expected one object per line")
            yield where, value


def json_value(lines: Iterator[str], label: str) -> Any:
    """The value of a whole file; None if it is not JSON. TableError if it is too large to be read whole."""
    text = ""
    for line in lines:
        text += line
        if len(text) > MAXIMUM_JSON_CHARACTERS:
            raise too_long(label, *JSON_ADVICE)
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return None


def without_long_lines(pieces: Iterator[str], label: str, what: str, advice: str) -> Iterator[str]:
    """The same pieces. TableError as soon as a line is too long, before the whole line is held in memory."""
    length = 0
    for piece in pieces:
        end = piece.rfind("\n") + 1
        length = len(piece) - end + (0 if end else length)
        if length > MAXIMUM_JSON_CHARACTERS:
            raise too_long(label, what, advice)
        yield piece


def too_long(label: str, what: str, advice: str) -> TableError:
    return TableError(f"{label}: {what} of more than {MAXIMUM_JSON_CHARACTERS:,} characters;\n{advice}")


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
    file: Path | IO[bytes], label: str, columns: list[str], decoding: Decoding, meter: Meter
) -> Iterator[Row]:
    """The columns' cells of each row as Python objects, read a few hundred rows at a time."""
    with damage_explained(label, "Parquet"), pq.ParquetFile(file) as table:
        schema = table.schema_arrow
        paths = [[column] if column in schema.names else column.split(".") for column in columns]
        kinds = [kind_of_column(schema, parts, label) for parts in paths]
        for batch in table.iter_batches(PARQUET_ROWS_AT_ONCE, columns=columns, use_threads=False):
            found = [
                cells_in(batch, parts, kind, label, decoding, meter) for parts, kind in zip(paths, kinds, strict=True)
            ]
            yield from ((label, cells) for cells in zip(*found, strict=True))


def kind_of_column(schema: Any, parts: list[str], label: str) -> Any:
    """The Arrow type of a column, which may lie within structs. NoColumnError if it is not there."""
    kind = pa.struct(list(schema))
    for part in parts:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            raise NoColumnError(label, ".".join(parts), schema.names)
        kind = kind.field(part).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def cells_in(batch: Any, parts: list[str], kind: Any, label: str, decoding: Decoding, meter: Meter) -> list[Any]:
    """A column's values. Text is decoded here: Arrow does not check that a string is UTF-8."""
    import pyarrow.compute

    cells = batch.column(parts[0])
    for part in parts[1:]:
        cells = pyarrow.compute.struct_field(cells, part)
    is_text = kind in (pa.string(), pa.large_string(), pa.string_view())
    if is_text:
        cells = cells.cast(kind).cast(pa.large_binary())
    meter.add(cells.nbytes, label)
    values: list[Any] = cells.to_pylist()
    return [decoded(value, label, decoding) for value in values] if is_text else values


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
    guess = guess_encoding(cell[:GUESSED_BYTES], "utf-8") if decoding.undecodable == "guess" else None
    decoding.note(label, f"{place}; read {f'as {guess}, by a guess' if guess else 'with U+FFFD in its place'}")
    return cell.decode(guess or "utf-8", "replace")
