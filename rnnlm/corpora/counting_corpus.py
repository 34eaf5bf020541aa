"""A corpus of counting, `37 38 39 40 …`: tests whether a model learns a rule and how long it holds its state.

A line is a run of consecutive numbers with random start and length, so only the next number is predictable. Training
and validation lines are short. Test lines are twenty times as long, with the numbers of the training lines.
"""

import random
from pathlib import Path
from typing import Any

COUNTING_VERSION = "1"  # raised when the text changes
COUNTING_SEED = 0
LARGEST = 999
LINES = {
    "train": (4_000, 2, 12),
    "valid": (200, 2, 12),
    "test": (100, 240, 240),
}  # lines; fewest and most numbers in each


def counting_versions() -> dict[str, str]:
    """Return everything the text depends on."""
    return {"counting": COUNTING_VERSION}


def write_counting(
    target: Path, largest: int = LARGEST, splits: dict[str, tuple[int, int, int]] = LINES
) -> dict[str, Any]:
    """Write a folder of splits; always the same bytes. Returns facts for the corpus record."""
    target.mkdir()
    draw = random.Random(COUNTING_SEED)
    numbers = 0
    for split, (lines, fewest, most) in splits.items():
        counts = [count_line(draw, draw.randint(fewest, most), largest) for _ in range(lines)]
        numbers += sum(len(line.split()) for line in counts)
        (target / f"{split}.txt").write_text("\n".join(counts) + "\n", encoding="utf-8")
    return {"numbers": numbers, "versions": counting_versions()}


def count_line(draw: random.Random, length: int, largest: int) -> str:
    """Return `length` consecutive numbers, none above `largest`."""
    first = draw.randint(0, largest + 1 - length)
    return " ".join(str(number) for number in range(first, first + length))
