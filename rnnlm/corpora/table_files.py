"""Readers of the columns of csv, tsv and JSON lines files, row by row."""

import csv
import itertools
import json
from collections.abc import Iterator
from typing import Any, Literal

from rnnlm.corpora.csv_dialects import MEASURED_CHARACTERS, Dialect, Quoting, measure_dialect, usual_dialect
from rnnlm.corpora.printable_names import printable
from rnnlm.corpora.table_cells import NoColumnError, Row, Spelled, TableError, place_of
from rnnlm.corpora.text_encoding import Decoding, single_lines

# The largest number of characters of a line, or of a file that is a single JSON value. Such a line or file is read into
# memory completely.
MAXIMUM_JSON_CHARACTERS = 64 << 20
JSON_ADVICE = "is one JSON value", "write one object per line, as with: jq -c '.[]'"
# The number of objects at the beginning of a JSON Lines file in which a column is searched for. One of them must have
# it.
SEARCHED_ROWS = 1_024
NO_VALUE = object()


# A decoder that accepts control characters in strings and keeps the spelling of numbers, because Python would lose
# digits of some numbers and refuse others.
parse_json = json.JSONDecoder(strict=False, parse_int=Spelled, parse_float=Spelled, parse_constant=Spelled).decode


def csv_rows(
    pieces: Iterator[str], label: str, columns: list[str], kind: str, decoding: Decoding, dialect: Dialect
) -> Iterator[Row]:
    """Yield the cells of the given columns for each row. The first row names the columns, and empty rows are skipped.

    `kind` is csv or tsv. For the dialect see measured().
    """
    lines = single_lines(without_long_lines(pieces, label, "has a line", "fix it"))
    heads: list[str] = []
    number = 1  # The number of the next line in the file.
    try:
        for record, row in dialect.records(lines):
            number += record.count("\n")
            if not row:
                continue
            if not heads:
                heads = row
                places = [place_of(column, heads, label) for column in columns]
                last = max(places)
                continue
            if len(row) <= last:
                raise TableError(
                    f"{label}: row {number - 1} has {len(row)} cells, expected at least {last + 1} for column "
                    f"{heads[last]!r}; fix the row"
                )
            # A note is recorded, because a row of a tsv file rarely has several lines.
            if kind == "tsv" and record.count("\n") > 1:
                place = f"line {number - record.count(chr(10))} begins a row of {record.count(chr(10))} lines"
                decoding.note(label, f"{place}, by its quotes; corpus.quoting=none reads each line as a row", "rows")
            yield label, tuple(row[place] for place in places)
    except csv.Error as error:
        raise TableError(
            f"{label}: line {number} is not {kind} ({error});\n"
            f"fix the line, or set corpus.quoting (the file was read as {dialect})"
        ) from None


def measured(
    pieces: Iterator[str], label: str, kind: str, quoting: Quoting | Literal["auto"], decoding: Decoding
) -> tuple[Dialect, Iterator[str]]:
    """Return the dialect of a csv or tsv file, and all pieces of its text."""
    held: list[str] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= MEASURED_CHARACTERS:
            break
    return noted_dialect("".join(held), label, kind, quoting, decoding), itertools.chain(held, pieces)


def noted_dialect(
    beginning: str, label: str, kind: str, quoting: Quoting | Literal["auto"], decoding: Decoding
) -> Dialect:
    """Return the dialect of a csv or tsv file from its beginning. Record a note if a different one is possible."""
    dialect = measure_dialect(beginning, kind, quoting)
    if dialect != usual_dialect(kind) or (kind == "tsv" and '"' in beginning):
        how = "as corpus.quoting says" if quoting != "auto" else "by measurement; corpus.quoting sets it"
        decoding.note(label, f"{dialect}, {how}", "dialect")
    return dialect


def json_rows(pieces: Iterator[str], label: str, columns: list[str], *, sparse: bool = False) -> Iterator[Row]:
    """Yield the cells of the given columns of the object in each line. Empty lines are skipped.

    Raise NoColumnError if an object lacks a column. If `sparse` is true, missing cells are None, and the error is only
    raised if none of the first SEARCHED_ROWS objects has the column.
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
    """Yield the location and the object of each line.

    If the whole file is one JSON object, yield this object. If it is a list, yield the objects of the list.
    """
    lines = single_lines(without_long_lines(pieces, label, *JSON_ADVICE))
    first = 0  # The number of the first line that is not blank, or 0 if none was found yet.
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
                    "expected one object per line; if the file has another format, set corpus.format"
                ) from None
        for value in row if isinstance(row, list) and number == first else [row]:
            if not isinstance(value, dict):
                raise TableError(f"{where} is a JSON {type(value).__name__}, expected one object per line")
            yield where, value


def json_value(lines: Iterator[str], label: str) -> Any:
    """Return the value of a whole file, or None if it is not JSON.

    Raise TableError if the file is too large to be read into memory.
    """
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
    """Yield the pieces unchanged.

    Raise TableError as soon as a line exceeds the limit, before the whole line is in memory.
    """
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
    """Return the value of a column, or NO_VALUE if the row lacks the column.

    A column named `data.body` may also be the entry `body` of the object `data`.
    """
    if column in row:
        return row[column]
    for part in column.split("."):
        if not isinstance(row, dict) or part not in row:
            return NO_VALUE
        row = row[part]
    return row
