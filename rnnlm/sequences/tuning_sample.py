"""The part of the validation split on which training chooses: ranges of rows, evenly spread over the split.

The checkpoint and the temperature are chosen on it. Promotion uses only the rest, because a choice must not be judged
on the text it was made on.
"""

from typing import TYPE_CHECKING

from rnnlm.sequences.segmentation import TokenRows, join_rows

if TYPE_CHECKING:  # its import would load torch
    from rnnlm.sequences.batches import RowSource

RANGES = 8
LARGEST_SHARE = 3  # at most one third of the split


class RowSample:
    """A RowSource of about `tokens` predicted tokens of another one; always the same rows.

    In stream mode the ranges are read as one text, so the first token of each follows a token that does not precede
    it in the corpus.
    """

    def __init__(self, source: "RowSource", tokens: int) -> None:
        self.source = source
        wanted = -(-tokens * len(source) // max(1, source.predicted_count))  # rows
        count = min(RANGES, wanted)
        # Range i ends where part i of the source ends, so the last row, which may be shorter, stays last.
        ends = [len(source) * (index + 1) // count for index in range(count)]
        sizes = [wanted * (index + 1) // count - wanted * index // count for index in range(count)]
        self.ranges = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.row_count = wanted
        self.predicted_count = sum(int(source.read(*rows).predicted.sum()) for rows in self.ranges)

    def __len__(self) -> int:
        return self.row_count

    def read(self, first: int, last: int) -> TokenRows:
        """Rows first … last - 1 of the sample."""
        parts, before = [], 0
        for start, end in self.ranges:
            low, high = max(first, before), min(last, before + end - start)
            if low < high:
                parts.append(self.source.read(start + low - before, start + high - before))
            before += end - start
        return join_rows(parts)

    def close(self) -> None:
        self.source.close()


def tuning_sample(source: "RowSource", tokens: int | None) -> RowSample:
    """A sample of about `tokens` predicted tokens, at most a third of the split. None: a third."""
    third = -(-source.predicted_count // LARGEST_SHARE)
    return RowSample(source, third if tokens is None else min(tokens, third))
