"""A fixed sample of a split's rows: stretches of neighbouring rows, evenly spread over the split."""

from rnnlm.sequences.batching import Source
from rnnlm.sequences.cutting import TokenRows, joined

STRETCHES = 16


class RowSample:
    """A Source of about `tokens` predicted tokens of another one; the same rows each time.

    In stream mode the stretches are read as one text: only the first token of each is predicted after a token that
    does not stand before it.
    """

    def __init__(self, source: Source, tokens: int) -> None:
        self.source = source
        wanted = -(-tokens * len(source) // max(1, source.predicted_count))  # rows
        stretches = min(STRETCHES, wanted)
        # Stretch i ends where the i-th part of the source ends: the last, perhaps shorter, row stays last.
        ends = [len(source) * (index + 1) // stretches for index in range(stretches)]
        sizes = [wanted * (index + 1) // stretches - wanted * index // stretches for index in range(stretches)]
        self.stretches = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.row_count = wanted
        self.predicted_count = sum(int(source.read(*stretch).predicted.sum()) for stretch in self.stretches)

    def __len__(self) -> int:
        return self.row_count

    def read(self, first: int, last: int) -> TokenRows:
        """Rows first … last - 1 of the sample."""
        parts, before = [], 0
        for start, end in self.stretches:
            low, high = max(first, before), min(last, before + end - start)
            if low < high:
                parts.append(self.source.read(start + low - before, start + high - before))
            before += end - start
        return joined(parts)

    def close(self) -> None:
        self.source.close()


def sample_of(source: Source, tokens: int | None) -> Source:
    """The source itself if it holds no more than so many predicted tokens, or if tokens is None."""
    return source if tokens is None or source.predicted_count <= tokens else RowSample(source, tokens)
