"""Index of the sources (files, archive members, table rows) in a corpus's stored text.

`<role>.sources` beside `<role>.txt` holds 16 bytes per source: its byte offset, little-endian, and the first 8 bytes of
the sha256 of its text. A text of one source has no such file.
"""

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

AT_ONCE = 65_536  # entries read together


class SourceIndex:
    """Writes the index while the text is written. Text of only white space belongs to the source before it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file: BinaryIO | None = None
        self._index_hash = hashlib.sha256()
        self._begin = self._offset = 0
        self._any_text = False
        self._hash = hashlib.sha256()

    @contextmanager
    def opened(self) -> Iterator[None]:
        with self.path.open("ab") as self._file:
            yield

    def add(self, data: bytes) -> None:
        """Add bytes of the current source."""
        self._offset += len(data)
        self._any_text = self._any_text or bool(data.strip())
        self._hash.update(data)

    def end_source(self) -> None:
        if self._any_text:
            entry = struct.pack("<Q", 0 if self.count == 0 else self._begin) + self._hash.digest()[:8]
            assert self._file is not None
            self._file.write(entry)
            self._index_hash.update(entry)
            self.count += 1
        self._begin, self._any_text, self._hash = self._offset, False, hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._index_hash.hexdigest()


@dataclass(frozen=True)
class Sources:
    """The sources of one corpus file, in order."""

    starts: np.ndarray  # (sources,) uint64: byte offsets
    digests: np.ndarray  # (sources, 8) uint8: first bytes of their sha256

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, offset: int) -> int:
        """The number of the source that holds the byte."""
        return int(np.searchsorted(self.starts, np.uint64(offset), side="right")) - 1

    def starts_between(self, begin: int, end: int) -> Iterator[int]:
        """The starts after `begin` and before `end`."""
        first, last = np.searchsorted(self.starts, np.array([begin + 1, end], np.uint64)).tolist()
        for chunk in range(first, last, AT_ONCE):
            yield from self.starts[chunk : min(chunk + AT_ONCE, last)].tolist()


def read_sources(folder: Path, role: str) -> Sources:
    """The sources of a role's text; without an index, one source that begins at byte 0."""
    path = folder / f"{role}.sources"
    if not path.exists():
        return Sources(np.zeros(1, np.uint64), np.zeros((1, 8), np.uint8))
    entries = np.memmap(path, dtype=[("start", "<u8"), ("digest", "u1", 8)], mode="r")
    return Sources(entries["start"], entries["digest"])
