"""Layout shared by reports: tables for the terminal and in Markdown, text and images inside Markdown."""

import base64
import logging
import re
import textwrap
import unicodedata
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

TableRows = list[dict[str, Any]]  # heading → cell
NAME_WIDTH, LINE_WIDTH = 11, 80  # characters on the terminal
LETTERS = re.compile(r"[^\W\d]")
JOINERS = "\u200c\u200d\u200e\u200f"  # zero-width non-joiner and joiner, left-to-right and right-to-left mark


class Code(str):
    """Text, such as a digest, that Markdown shows as code."""


def labelled(name: str, text: str) -> str:
    """Lay out a line for the terminal: the name on the left, the text on the right, wrapped if it is long."""
    return textwrap.fill(
        text,
        LINE_WIDTH,
        initial_indent=name.ljust(NAME_WIDTH),
        subsequent_indent=" " * NAME_WIDTH,
        break_long_words=False,  # digests and paths stay whole
        break_on_hyphens=False,
    )


def fact_lines(facts: Mapping[str, object]) -> list[str]:
    """Lay out each name and value by labelled(). A list has a line for each item. Empty values are left out."""
    return [
        labelled(name, str(value))
        for name, values in facts.items()
        for value in (values if isinstance(values, list | tuple) else [values])
        if value not in ("", None)
    ]


def columns(rows: TableRows) -> list[str]:
    """Return the lines of a table for the terminal; the first column and text are left-aligned.

    If the table is wider than a terminal, headings of several words take several lines.
    """
    heads = list(rows[0])
    left = {head for head in heads if head == heads[0] or any(LETTERS.match(str(row[head])) for row in rows)}
    cells = [[str(row[head]) for head in heads] for row in rows]
    needed = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths = [max(len(head), width) for head, width in zip(heads, needed, strict=True)]
    lines = [heads, *cells]
    if sum(widths) + 2 * (len(widths) - 1) > LINE_WIDTH:
        words = (max(map(len, head.split()), default=0) for head in heads)
        widths = [max(pair) for pair in zip(words, needed, strict=True)]
        broken = (textwrap.wrap(head, width) for head, width in zip(heads, widths, strict=True) if width)
        lines = [*map(list, zip_longest(*broken, fillvalue="")), *cells]
    return [
        "  ".join(
            cell.ljust(width) if head in left else cell.rjust(width)
            for head, cell, width in zip(heads, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def text_tables(tables: Mapping[str, TableRows]) -> list[str]:
    """Return the lines for the terminal: each title and its table, indented below it. Empty tables are left out."""
    lines = []
    for title, rows in tables.items():
        if rows:
            lines += ["", title, *(f"  {line}" for line in columns(rows))] if title else ["", *columns(rows)]
    return lines


def markdown_table(rows: TableRows) -> str:
    """Lay out a table in Markdown. Cells are escaped; paths and Code are shown as code."""
    heads = list(rows[0])
    lines = [[markdown_text(head) for head in heads], *([markdown_cell(row[head]) for head in heads] for row in rows)]
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([table[0], "|" + "---|" * len(heads), *table[1:]])


def markdown_cell(value: object) -> str:
    """Escape one cell. A line break would end its row, and a bar the cell, in code too."""
    if isinstance(value, Code | Path):
        return markdown_code(str(value)).replace("|", "\\|")
    return markdown_text(visible(str(value)))


def markdown_code(text: str) -> str:
    """Write a text as code in a line of Markdown, whatever is in it.

    A name of a file may hold backticks and line breaks.
    """
    text = visible(text)
    mark = ticks(text, 1)
    space = " " if "`" in text else ""  # otherwise a backtick at either end would join the marks
    return f"{mark}{space}{text}{space}{mark}" if text else ""


def ticks(text: str, at_least: int) -> str:
    """Return a run of backticks longer than any in the text, so that the text cannot end the code."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(at_least, longest + 1)


def markdown_text(text: str) -> str:
    """Escape a text for Markdown: `<unk>` is not a tag, `*` not emphasis."""
    for mark in "\\`*_<>|#[]":
        text = text.replace(mark, "\\" + mark)
    return text.strip()


def markdown_picture(title: str, picture: Path) -> str:
    """Embed a PNG in Markdown, so that a page needs to fetch nothing."""
    data = base64.b64encode(picture.read_bytes()).decode("ascii")
    return f"![{title}](data:image/png;base64,{data})"


def span(first: int, last: int) -> str:
    """Return a text such as `7`, or `7–12`."""
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def shorten(text: str, width: int = 72) -> str:
    """Shorten a text to at most `width` characters, with control characters made visible."""
    text = visible(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def visible(text: str) -> str:
    """Escape the text's control characters: untrusted text must not control the terminal.

    Characters that join letters or emoji stay, and so do direction marks, which reach no further than their word.
    """
    return "".join(
        character if character.isprintable() or character in JOINERS else repr(character)[1:-1] for character in text
    )


def terminal_text(text: str) -> str:
    """Return the text as a terminal may get it: visible(), but for line breaks, tabs and spaces of any width."""
    return re.sub(
        r"[^\n\t -~]", lambda found: found[0] if unicodedata.category(found[0]) == "Zs" else visible(found[0]), text
    )


class TerminalFormatter(logging.Formatter):
    """Makes what another formatter writes fit for a terminal: messages quote texts and names of files."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self.inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text(self.inner.format(record))
