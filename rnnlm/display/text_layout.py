"""The layout of reports: tables for the terminal and in Markdown, and text and images in Markdown."""

import base64
import logging
import re
import textwrap
import unicodedata
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

TableRows = list[dict[str, Any]]  # The rows of a table. Each row maps headings to cells.
NAME_WIDTH, LINE_WIDTH = 11, 80  # The widths of a name and of a whole line on the terminal, in characters.
LETTERS = re.compile(r"[^\W\d]")
# Invisible characters that are kept: the zero-width non-joiner and joiner, and the left-to-right and right-to-left
# marks.
JOINERS = "\u200c\u200d\u200e\u200f"


class Code(str):
    """A text, such as a digest, that Markdown shows as code."""


def labelled(name: str, text: str) -> str:
    """Return a line for the terminal with the name on the left and the text on the right, wrapped if it is long."""
    return textwrap.fill(
        text,
        LINE_WIDTH,
        initial_indent=name.ljust(NAME_WIDTH),
        subsequent_indent=" " * NAME_WIDTH,
        break_long_words=False,  # Long words are not broken, because they are digests or paths.
        break_on_hyphens=False,
    )


def fact_lines(facts: Mapping[str, object]) -> list[str]:
    """Return lines for the terminal with all names and values, formatted by labelled().

    A list has a line for each item. Empty values are omitted.
    """
    return [
        labelled(name, str(value))
        for name, values in facts.items()
        for value in (values if isinstance(values, list | tuple) else [values])
        if value not in ("", None)
    ]


def columns(rows: TableRows) -> list[str]:
    """Return the lines of a table for the terminal. The first column and text are left-aligned.

    If the table is wider than a terminal, headings of several words are broken into several lines.
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
    """Return lines for the terminal with each title and its indented table. Empty tables are omitted."""
    lines = []
    for title, rows in tables.items():
        if rows:
            lines += ["", title, *(f"  {line}" for line in columns(rows))] if title else ["", *columns(rows)]
    return lines


def markdown_table(rows: TableRows) -> str:
    """Return a table in Markdown with escaped cells. Paths and Code are shown as code."""
    heads = list(rows[0])
    lines = [[markdown_text(head) for head in heads], *([markdown_cell(row[head]) for head in heads] for row in rows)]
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([table[0], "|" + "---|" * len(heads), *table[1:]])


def markdown_cell(value: object) -> str:
    """Return an escaped table cell. A line break or a vertical bar would end the cell, even in code."""
    if isinstance(value, Code | Path):
        return markdown_code(str(value)).replace("|", "\\|")
    return markdown_text(visible(str(value)))


def markdown_code(text: str) -> str:
    """Return any text as code in a line of Markdown.

    For instance, a file name may contain backticks and line breaks.
    """
    text = visible(text)
    mark = ticks(text, 1)
    # Without a space, a backtick at either end of the text would become part of the delimiter.
    space = " " if "`" in text else ""
    return f"{mark}{space}{text}{space}{mark}" if text else ""


def ticks(text: str, at_least: int) -> str:
    """Return a run of at least `at_least` backticks that is longer than any in the text.

    No run in the text can then end the code.
    """
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(at_least, longest + 1)


def markdown_text(text: str) -> str:
    """Return the text escaped for Markdown, so that `<unk>` is not a tag and `*` is not emphasis."""
    for mark in "\\`*_<>|#[]":
        text = text.replace(mark, "\\" + mark)
    return text.strip()


def markdown_picture(title: str, picture: Path) -> str:
    """Return a PNG embedded in Markdown, so that a page needs no other files."""
    data = base64.b64encode(picture.read_bytes()).decode("ascii")
    return f"![{title}](data:image/png;base64,{data})"


def span(first: int, last: int) -> str:
    """Return a text such as `7` or `7–12`."""
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def shorten(text: str, width: int = 72) -> str:
    """Return the text shortened to at most `width` characters, with control characters made visible."""
    text = visible(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def visible(text: str) -> str:
    """Return the text with escaped control characters, with which untrusted text could control the terminal.

    Characters that join letters or emoji are kept. Direction marks, whose effect is limited to their word, are also
    kept.
    """
    return "".join(
        character if character.isprintable() or character in JOINERS else repr(character)[1:-1] for character in text
    )


def terminal_text(text: str) -> str:
    """Return the text with control characters escaped as in visible(), except for line breaks, tabs and spaces."""
    return re.sub(
        r"[^\n\t -~]", lambda found: found[0] if unicodedata.category(found[0]) == "Zs" else visible(found[0]), text
    )


class TerminalFormatter(logging.Formatter):
    """A formatter that escapes another formatter's output for terminals, because messages may quote untrusted text."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self.inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text(self.inner.format(record))
