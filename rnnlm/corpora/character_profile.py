"""Character profile: how often each character occurs in a text, and how far two texts are from each other by it.

Needs no language and no tokenizer. The distance is the Jensen-Shannon distance of two frequency distributions with
logarithms to base 2: 0 for equal distributions, 1 for texts without a common character. `benchmarks/gates.py` prints
examples.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20
SAMPLED_CHUNKS = 64  # a larger text is sampled: 64 MiB take about 3 s
LARGEST_PROFILE = 5_000  # most frequent characters

Profile = dict[str, int]  # character → count


def count_characters(text: Path) -> Profile:
    """Count the file's most frequent characters, without line ends: texts are wrapped at different widths.

    A text of more than SAMPLED_CHUNKS is sampled: as many chunks, evenly spread over it.
    """
    counts: Counter[str] = Counter()
    for chunk in chunks(text):
        counts.update(chunk)
    for line_end in "\r\n":
        counts.pop(line_end, None)
    return dict(counts.most_common(LARGEST_PROFILE))


def chunks(text: Path) -> Iterator[str]:
    size = text.stat().st_size
    if size <= SAMPLED_CHUNKS * CHUNK_BYTES:
        with text.open(encoding="utf-8", newline="") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
        return
    with text.open("rb") as binary:
        for number in range(SAMPLED_CHUNKS):
            binary.seek(number * size // SAMPLED_CHUNKS)
            yield binary.read(CHUNK_BYTES).decode("utf-8", "ignore")  # a chunk may begin or end within a character


def character_distance(one: Profile, other: Profile) -> float:
    """Return Jensen-Shannon distance, 0 to 1, or 0 if one of the two is empty."""
    totals = sum(one.values()), sum(other.values())
    if 0 in totals:
        return 0.0
    divergence_bits = 0.0
    for character in one.keys() | other.keys():
        shares = one.get(character, 0) / totals[0], other.get(character, 0) / totals[1]
        mean = sum(shares) / 2
        divergence_bits += sum(share * math.log2(share / mean) for share in shares if share) / 2
    return math.sqrt(max(0.0, divergence_bits))


def training_text(corpus_folder: Path) -> Path | None:
    """Return the file that the training split is read from, or None if the corpus is gone."""
    candidates = (corpus_folder / name for name in ("train.txt", "text.txt"))
    return next((path for path in candidates if path.exists()), None)
