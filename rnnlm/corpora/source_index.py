"""The index of the sources (files, archive members, table rows) in the stored text of a corpus.

The index of the text `train.txt` is the file `train.sources`. It has 16 bytes per source: the source's byte offset,
little-endian, and the first 8 bytes of the sha256 of its text. A text with one source has no index.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

AT_ONCE = 65_536  # The number of entries that are read at once.


@dataclass(frozen=True)
class SourceIndex:
    """The sources of one corpus file, in the order of the text."""

    starts: np.ndarray  # The byte offset at which each source starts, (sources,) uint64.
    digests: np.ndarray  # The first bytes of the sha256 of each source, (sources, 8) uint8.

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, offset: int) -> int:
        """Return the number of the source that contains the byte at this offset."""
        return int(np.searchsorted(self.starts, np.uint64(offset), side="right")) - 1

    def starts_between(self, begin: int, end: int) -> Iterator[int]:
        """Yield the offsets after `begin` and before `end` at which sources start."""
        first, last = np.searchsorted(self.starts, np.array([begin + 1, end], np.uint64)).tolist()
        for chunk in range(first, last, AT_ONCE):
            yield from self.starts[chunk : min(chunk + AT_ONCE, last)].tolist()


def read_source_index(folder: Path, role: str) -> SourceIndex:
    """Return the index of the text `<role>.txt`. If there is no index, the text is a single source."""
    path = folder / f"{role}.sources"
    if not path.exists():
        return SourceIndex(np.zeros(1, np.uint64), np.zeros((1, 8), np.uint8))
    entries = np.memmap(path, dtype=[("start", "<u8"), ("digest", "u1", 8)], mode="r")
    return SourceIndex(entries["start"], entries["digest"])
