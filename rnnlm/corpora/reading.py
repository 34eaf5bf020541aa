"""The stored text, line by line, nothing held in memory."""

from collections.abc import Iterator
from pathlib import Path


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file of the home with their line ends; joined, they are the file exactly.

    A corpus is stored with line feeds alone, and only they end a line: no form feed, no U+2028.
    """
    with path.open(encoding="utf-8", newline="\n") as lines:
        yield from lines
