"""The cells of a table: their columns are found by name, and their values are converted to text."""

import json
from collections.abc import Iterable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from rnnlm.corpora.printable_names import printable
from rnnlm.corpora.text_encoding import Decoding, sound_text
from rnnlm.errors import CorpusError

Row = tuple[str, tuple[Any, ...]]  # A row of a table: its location for messages, and the cells of the wanted columns.


class TableError(CorpusError):
    """An error in a row that does not fit the format of its table."""


class NoColumnError(TableError):
    """An error which means that a table lacks a requested column."""

    def __init__(self, label: str, column: str, there: list[str]) -> None:
        names = ", ".join(printable(str(name)) for name in there[:10]) or "none"
        more = f" and {len(there) - 10} more" if len(there) > 10 else ""
        self.problem = f"{label}: has no column {column!r}; it has: {names}{more}"
        super().__init__(f"{self.problem};\nset corpus.column")


class Spelled(str):
    """A value that is not text, spelled as in the file. It may be a number of any size and precision."""


def place_of(column: str, heads: list[str], label: str) -> int:
    """Return the index of the column of this name.

    Raise NoColumnError if there is none, and TableError if there are several.
    """
    if column not in heads:
        raise NoColumnError(label, column, heads)
    if heads.count(column) > 1:
        raise TableError(f"{label}: has {heads.count(column)} columns {column!r}; rename all but one")
    return heads.index(column)


def column_texts(rows: Iterable[Row], label: str, column: str, decoding: Decoding) -> Iterator[str]:
    """Yield the texts of a column. Each row in `rows` has only the cell of this column.

    Each text has line feeds as line ends and ends with one. Null cells are skipped.
    """
    for where, (cell,) in rows:
        if isinstance(cell, str) and not isinstance(cell, Spelled):
            text = sound_text(cell, label, decoding).replace("\r\n", "\n").replace("\r", "\n")
            yield text if text.endswith("\n") else text + "\n"
        elif cell is not None:
            raise TableError(f"{where}: column {column!r} holds {kind_of_cell(cell)}, expected text; set corpus.column")


def kind_of_cell(cell: Any) -> str:
    """Return a description, for messages, of a cell that is not text."""
    return "a number" if isinstance(cell, Spelled) else type(cell).__name__


def cell_text(cell: Any, where: str) -> str | None:
    """Return a cell as text. Numbers and dates keep the spelling of the file; lists and objects are converted to JSON.

    Raise TableError for other values.
    """
    if cell is None or isinstance(cell, str):
        return cell
    try:
        # The quotes around the JSON of a date are removed.
        return json_text(cell, where).removeprefix('"').removesuffix('"')
    except RecursionError:
        raise TableError(f"{where}: lists or objects are nested too deeply; store the text alone") from None


def json_text(value: Any, where: str) -> str:
    """Return a value of a table as JSON. Numbers keep their digits."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Spelled | int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {json_text(v, where)}" for k, v in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(json_text(one, where) for one in value) + "]"
    if isinstance(value, date | time | timedelta | UUID):
        return f'"{value}"'
    raise TableError(f"{where}: holds {type(value).__name__}, which is not read; store it as text")
