"""The changes of a text since its previous version.

The changes are found by comparing the lists of files that are stored with each corpus.
"""

import io
import mmap
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import read_json
from rnnlm.storage.records import CorpusRecord, Record

PARTS = "parts.json"  # The name of a file with a list of Part, which has one entry for each file and archive member.
COMPARED_BYTES = 1 << 20  # The number of bytes that are compared at once.
# The largest number of bytes between the common prefix and the common suffix of two files whose lines are compared.
LONGEST_COMPARISON = 1 << 25
NEW_LINES_SHOWN = 5


class Part(Record):
    """The location of a file or archive member in a stored text file."""

    label: str
    role: str  # The name of a split, or "text" for a text that was not split yet.
    begin: int  # The offset of the part in the text, in bytes.
    byte_count: int
    digest: str  # The first digits of the sha256 of the part's text.


class PartChange(Record):
    """A file that is new, changed or removed. Its sizes are those of its cleaned text in bytes."""

    name: str
    change: Literal["new", "changed", "gone"]
    bytes_before: int
    bytes_now: int
    new_lines: int | None  # The number of new lines, or None if the file has changed in too many places to count them.
    first_lines: tuple[str, ...] = ()  # The beginning of the list of new lines.


class TextChanges(Record):
    """The files of a text, compared with those of its previous version, in the order of the text."""

    part_count: int
    parts_before: int
    bytes_before: int
    changes: tuple[PartChange, ...]

    @property
    def first_lines(self) -> list[tuple[str, str]]:
        """Return pairs of a file's name and a new line, for the first files with new lines."""
        return [(one.name, line) for one in self.changes for line in one.first_lines][:NEW_LINES_SHOWN]


def text_changes(corpus: CorpusRecord) -> TextChanges | None:
    """Compare a corpus with the previous text of its source.

    Return None if there was no previous text or it is no longer stored. A file that has the same text under another
    name counts as unchanged.
    """
    if not corpus.before:
        return None
    earlier = inside(corpus.folder.parent, corpus.before[:16])
    parts, parts_before = read_parts(corpus.folder), read_parts(earlier)
    if parts is None or parts_before is None:
        return None
    now, before = {part.label: part for part in parts}, {part.label: part for part in parts_before}
    texts_now, texts_before = ({part.digest for part in some} for some in (parts, parts_before))
    folder = common_folder([*now, *before])
    changes = [
        compared(name.removeprefix(folder), corpus.folder, part, earlier, before.get(name))
        for name, part in now.items()
        if part.digest not in texts_before
    ]
    for name, part in before.items():
        if name not in now and part.digest not in texts_now:
            gone = {"bytes_before": part.byte_count, "bytes_now": 0, "new_lines": 0}
            changes.append(PartChange(name=name.removeprefix(folder), change="gone", **gone))
    bytes_before = sum(part.byte_count for part in parts_before)
    return TextChanges(
        part_count=len(parts), parts_before=len(parts_before), bytes_before=bytes_before, changes=tuple(changes)
    )


def read_parts(folder: Path) -> list[Part] | None:
    """Return the files of a stored text, or None if the text was deleted or stored by rnnlm 0.3."""
    found: list[dict[str, Any]] | None = read_json(folder / PARTS)
    return None if found is None else [Part.model_validate(part) for part in found]


def common_folder(labels: list[str]) -> str:
    """Return the beginning that all labels have in common, up to and including a slash."""
    begin, slash, _ = os.path.commonprefix(labels).rpartition("/")
    return begin + slash


def compared(name: str, folder: Path, part: Part, earlier: Path, before: Part | None) -> PartChange:
    """Return the description of a file that is new or has changed."""
    old = part_text(earlier, before) if before else memoryview(b"")
    count, first = new_lines(old, part_text(folder, part))
    return PartChange(
        name=name,
        change="changed" if before else "new",
        bytes_before=before.byte_count if before else 0,
        bytes_now=part.byte_count,
        new_lines=count,
        first_lines=tuple(line.decode(errors="replace").strip() for line in first if line.strip()),
    )


def part_text(folder: Path, part: Part) -> memoryview:
    """Return the bytes of a part, which are mapped from the file and read only when they are accessed."""
    if part.byte_count == 0:
        return memoryview(b"")
    with inside(folder, f"{part.role}.txt").open("rb") as file:
        text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return memoryview(text)[part.begin : part.begin + part.byte_count]


def new_lines(old: memoryview, new: memoryview) -> tuple[int | None, list[bytes]]:
    """Return the number of lines of `new` that are not in `old`, and the first of these lines.

    Repeated lines count separately. A line ends with a line feed and has fewer than COMPARED_BYTES bytes.
    """
    begin = common_beginning(old, new)
    begin = max(0, begin - COMPARED_BYTES) + bytes(new[max(0, begin - COMPARED_BYTES) : begin]).rfind(b"\n") + 1
    old, new = old[begin:], new[begin:]
    end = common_end(old, new)
    end -= bytes(new[len(new) - end :][:COMPARED_BYTES]).find(b"\n") + 1
    old, new = old[: len(old) - end], new[: len(new) - end]
    if not old:
        return sum(chunk.count(b"\n") for chunk in chunks(new)), io.BytesIO(new[:COMPARED_BYTES]).readlines()[
            :NEW_LINES_SHOWN
        ]
    if max(len(old), len(new)) > LONGEST_COMPARISON:
        return None, []
    left = Counter(io.BytesIO(old))
    found = []
    for line in io.BytesIO(new):
        if left[line] == 0:
            found.append(line)
        left[line] -= left[line] > 0
    return len(found), found[:NEW_LINES_SHOWN]


def chunks(text: memoryview) -> Iterator[bytes]:
    return (bytes(text[at : at + COMPARED_BYTES]) for at in range(0, len(text), COMPARED_BYTES))


def common_beginning(one: memoryview, other: memoryview) -> int:
    """Return the length in bytes of the longest common prefix of two texts."""
    length = 0
    for mine, its in zip(chunks(one), chunks(other), strict=False):
        if mine != its:
            return length + len(os.path.commonprefix([mine, its]))
        length += len(mine)
    return length


def common_end(one: memoryview, other: memoryview) -> int:
    """Return the length in bytes of the longest common suffix of two texts."""
    return common_beginning(one[::-1], other[::-1])
