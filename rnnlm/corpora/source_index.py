"""Index of the sources (files, archive members, table rows) in a corpus's stored text.

`<role>.sources` beside `<role>.txt` holds 16 bytes per source: its byte offset, little-endian, and the first 8 bytes of
the sha256 of its text. A text of one source has no such file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

AT_ONCE = 65_536  # entries read together


@dataclass(frozen=True)
class SourceIndex:
    """The sources of one corpus file, in order."""

    starts: np.ndarray  # (sources,) uint64: byte offsets
    digests: np.ndarray  # (sources, 8) uint8: first bytes of their sha256

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, offset: int) -> int:
        """Return the number of the source that holds the byte."""
        return int(np.searchsorted(self.starts, np.uint64(offset), side="right")) - 1

    def starts_between(self, begin: int, end: int) -> Iterator[int]:
        """Yield the starts after `begin` and before `end`."""
        first, last = np.searchsorted(self.starts, np.array([begin + 1, end], np.uint64)).tolist()
        for chunk in range(first, last, AT_ONCE):
            yield from self.starts[chunk : min(chunk + AT_ONCE, last)].tolist()


def read_source_index(folder: Path, role: str) -> SourceIndex:
    """Read the sources of a role's text. Without an index, one source begins at byte 0."""
    path = folder / f"{role}.sources"
    if not path.exists():
        return SourceIndex(np.zeros(1, np.uint64), np.zeros((1, 8), np.uint8))
    entries = np.memmap(path, dtype=[("start", "<u8"), ("digest", "u1", 8)], mode="r")
    return SourceIndex(entries["start"], entries["digest"])
