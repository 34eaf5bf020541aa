"""Character profiles, which count how often each character occurs in a text, and the distance between two profiles.

A profile needs no knowledge of the language and no tokenizer. The distance between two profiles is the Jensen-Shannon
distance between their frequency distributions, with logarithms to base 2. It is 0 for equal distributions and 1 for
texts without a common character. `benchmarks/gates.py` prints examples.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20
# The number of chunks that are sampled from a larger text. Together they have 64 MiB and are read in about 3 s.
SAMPLED_CHUNKS = 64
LARGEST_PROFILE = 5_000  # The largest number of characters in a profile. Rarer characters are ignored.

Profile = dict[str, int]  # The number of occurrences of each character.


def count_characters(text: Path) -> Profile:
    """Count the file's most frequent characters.

    Line ends are not counted, because their number depends on the width of the lines. A text of more than
    SAMPLED_CHUNKS chunks is sampled: SAMPLED_CHUNKS chunks, evenly spread over the file, are read.
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
            # Decoding errors are ignored, because a chunk may begin or end within the bytes of a character.
            yield binary.read(CHUNK_BYTES).decode("utf-8", "ignore")


def character_distance(one: Profile, other: Profile) -> float:
    """Return the Jensen-Shannon distance between two profiles, from 0 to 1. If one of them is empty, return 0."""
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
    """Return the file with the training text of a corpus, or None if the corpus was deleted."""
    candidates = (corpus_folder / name for name in ("train.txt", "text.txt"))
    return next((path for path in candidates if path.exists()), None)
