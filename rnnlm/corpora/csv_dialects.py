"""Dialects of csv and tsv files: the delimiter and the quoting of cells, detected from the beginning of a file."""

import csv
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

MEASURED_CHARACTERS = 64 << 10
# The largest number of characters in a cell. Without a limit, an unclosed quote would cause the whole file to be read
# into memory.
MAXIMUM_CELL_CHARACTERS = 64 << 20
# The possible delimiters of each kind of file. The first one is used, unless the first row does not contain it.
DELIMITERS = {"csv": (",", ";", "\t", "|"), "tsv": ("\t",)}
# If a quoted cell joins at least this many lines of a csv file, and each line is a row by itself, quotes are read as
# ordinary characters. Fewer joined lines may be a cell with several lines.
LINES_JOINED = 4
Quoting = Literal["doubled", "backslash", "none"]
# A line before the headings that tells Excel which delimiter is used.
SEPARATOR_LINE = re.compile(r"sep=[,;\t|][\r\n]*")
ESCAPED = re.compile(r'\\(["\\])')
QUOTED: dict[Quoting, str] = {
    "doubled": r'"[^"]*(?:""[^"]*)*"',
    "backslash": r'"[^"\\]*(?:(?:\\.|"")[^"\\]*)*"',
    "none": r"(?!)",
}
# A cell with doubled quotes, which only programs that quote cells write.
DOUBLED_QUOTE = re.compile(r'"[^"]*(?:""[^"]*)+"')


class Dialect(NamedTuple):
    """The delimiter and the quoting of the cells of a file.

    Quoting is `doubled` if a quote within a quoted cell is doubled, and `backslash` if a backslash precedes it, as in
    files that Spark and MySQL write. With `none`, a quote is an ordinary character, and each line is a row.
    """

    delimiter: str
    quoting: Quoting

    def records(self, lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each row, with its line ends as in the file, and its cells. Raise csv.Error for a damaged row.

        A blank row has no cells.
        """
        csv.field_size_limit(MAXIMUM_CELL_CHARACTERS)
        held: list[str] = []

        def lines_as_doubled() -> Iterator[str]:
            for line in lines:
                held.append(line)
                yield ESCAPED.sub(doubled_quote, line) if self.quoting == "backslash" else line

        quoting: Any = csv.QUOTE_NONE if self.quoting == "none" else csv.QUOTE_MINIMAL
        for cells in csv.reader(lines_as_doubled(), delimiter=self.delimiter, quoting=quoting, strict=True):
            record = "".join(held)
            held.clear()
            yield record, [] if SEPARATOR_LINE.fullmatch(record) else cells

    def cells_as_they_stand(self, record: str) -> list[str]:
        """Return the cells of a row with their quotes.

        The cells joined by the delimiter are the row without its line end.
        """
        pattern, place = cell_pattern(self), 0
        cells = []
        while True:
            found = pattern.match(record, place)
            assert found is not None  # The pattern always matches, because it also matches an empty cell.
            cells.append(found[0])
            place = found.end() + 1
            if record[found.end() : place] != self.delimiter:
                return cells

    def spelled(self, value: str) -> str:
        """Return the text that represents `value` in a cell."""
        if self.quoting == "none":
            return re.sub(rf"[\r\n{re.escape(self.delimiter)}]", " ", value)
        if not re.search(rf'[\r\n"\\{re.escape(self.delimiter)}]', value):
            return value
        if self.quoting == "backslash":
            return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
        return '"' + value.replace('"', '""') + '"'

    def __str__(self) -> str:
        names = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}
        return f"cells separated by {names[self.delimiter]}, quotes {QUOTES_READ_AS[self.quoting]}"


QUOTES_READ_AS: dict[Quoting, str] = {
    "doubled": "around cells",
    "backslash": "around cells, with backslashes",
    "none": "as characters",
}


def doubled_quote(found: re.Match[str]) -> str:
    return '""' if found[1] == '"' else "\\"


@cache
def cell_pattern(dialect: Dialect) -> re.Pattern[str]:
    return re.compile(rf"{QUOTED[dialect.quoting]}|[^{re.escape(dialect.delimiter)}\r\n]*", re.DOTALL)


def usual_dialect(kind: str) -> Dialect:
    """Return the dialect for a file of kind csv or tsv that contains no quote."""
    return Dialect("\t", "none") if kind == "tsv" else Dialect(",", "doubled")


def measure_dialect(text: str, kind: str, quoting: Quoting | Literal["auto"] = "auto") -> Dialect:
    """Return the dialect that best fits the lines at the beginning of a file.

    This is the dialect with the fewest odd lines. A line is odd if its row is damaged or does not have as many cells as
    the first row. In a table of sentences, an unpaired quote would join all lines up to the next quote. Hence a tsv
    file is read as quoted only if a cell or the headings show that it is. A csv file is read as unquoted if quotes join
    lines that are rows themselves.

    Args:
        text: The beginning of the file, with line feeds as line ends.
        kind: csv or tsv.
        quoting: The configured quoting.
    """
    text = text[:MEASURED_CHARACTERS]
    whole_lines = text.split("\n")[: -1 if len(text) == MEASURED_CHARACTERS else None]
    lines = [line + "\n" for line in whole_lines if line]
    if not lines:
        return usual_dialect(kind)
    delimiter = next((one for one in DELIMITERS[kind] if one in lines[0]), DELIMITERS[kind][0])
    if quoting != "auto":
        return Dialect(delimiter, quoting)
    usual = usual_dialect(kind)._replace(delimiter=delimiter)
    if '"' not in text:
        return usual
    doubled, backslash, none = (Dialect(delimiter, one) for one in QUOTED)
    quoted = min((doubled, backslash), key=lambda dialect: odd_lines(lines, dialect).odd)
    if kind == "csv":
        rows_joined = delimiter in lines[0] and odd_lines(lines, quoted).longest_row >= LINES_JOINED
        return none if rows_joined and not odd_lines(lines, none).odd else quoted
    order = (quoted, none) if shows_quoting(lines, delimiter) else (none, quoted)
    return min(order, key=lambda dialect: odd_lines(lines, dialect).odd)


def shows_quoting(lines: list[str], delimiter: str) -> bool:
    """Return True if the headings or a cell show that the cells of the file are quoted."""
    if all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in lines[0].rstrip("\n").split(delimiter)):
        return True
    return any(DOUBLED_QUOTE.fullmatch(cell) for line in lines for cell in line.rstrip("\n").split(delimiter))


class OddLines(NamedTuple):
    """A measure of how well a dialect fits the lines of a file."""

    odd: int  # The number of lines in rows that are damaged or do not have as many cells as the first row.
    longest_row: int  # The number of lines in the longest row.


def odd_lines(lines: list[str], dialect: Dialect) -> OddLines:
    odd = read = expected = longest = 0
    try:
        for record, cells in dialect.records(lines):
            count = record.count("\n")
            read += count
            longest = max(longest, count)
            expected = expected or len(cells)
            odd += count if len(cells) != expected else 0
    except csv.Error:
        odd += len(lines) - read
    return OddLines(odd, longest)
