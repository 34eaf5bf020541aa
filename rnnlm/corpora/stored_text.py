"""A corpus's stored text, line by line: UTF-8, line feeds, nothing held in memory."""

from collections.abc import Iterator
from pathlib import Path


def stored_lines(path: Path, byte_offset: int = 0, byte_count: int | None = None) -> Iterator[bytes]:
    """The lines with their line feeds; joined, they are the stretch of the file exactly.

    The stretch must begin and end where lines do. byte_count None: to the end of the file.
    """
    left = byte_count
    with path.open("rb") as stream:
        stream.seek(byte_offset)
        for line in stream:
            if left is not None:
                if left <= 0:
                    return
                left -= len(line)
            yield line
