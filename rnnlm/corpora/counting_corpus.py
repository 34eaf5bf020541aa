"""A generated corpus of consecutive numbers, `37 38 39 40 …`.

The corpus shows whether a model learns the rule of counting, and over how many tokens it keeps its state.

A line starts at a random number and has a random length, so that only the next number is predictable. Training and
validation lines are short. Test lines are twenty times as long, with numbers that occur in the training lines.
"""

import random
from pathlib import Path
from typing import Any

COUNTING_VERSION = "1"  # The version of the text, which is part of the corpus's key. Increase it when the text changes.
COUNTING_SEED = 0
LARGEST = 999
LINES = {
    "train": (4_000, 2, 12),
    "valid": (200, 2, 12),
    "test": (100, 240, 240),
}  # The number of lines, and the fewest and the most numbers in a line, for each split.


def counting_versions() -> dict[str, str]:
    """Return everything on which the text depends."""
    return {"counting": COUNTING_VERSION}


def write_counting(
    target: Path, largest: int = LARGEST, splits: dict[str, tuple[int, int, int]] = LINES
) -> dict[str, Any]:
    """Write a folder with a file for each split, and return metadata for the corpus record.

    Equal arguments give equal bytes.
    """
    target.mkdir()
    draw = random.Random(COUNTING_SEED)
    numbers = 0
    for split, (lines, fewest, most) in splits.items():
        counts = [count_line(draw, draw.randint(fewest, most), largest) for _ in range(lines)]
        numbers += sum(len(line.split()) for line in counts)
        (target / f"{split}.txt").write_text("\n".join(counts) + "\n", encoding="utf-8")
    return {"numbers": numbers, "versions": counting_versions()}


def count_line(draw: random.Random, length: int, largest: int) -> str:
    """Return `length` consecutive numbers, none of them above `largest`."""
    first = draw.randint(0, largest + 1 - length)
    return " ".join(str(number) for number in range(first, first + length))
