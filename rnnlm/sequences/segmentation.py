"""Two ways to cut a corpus into rows of token ids: by sentence, or as one running stream."""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from ..tokenizers.text_tokenizer import BOS, EOS


@dataclass(frozen=True)
class TokenRows:
    """Rows of token ids end to end. Row i is token_ids[offsets[i]:offsets[i + 1]]."""

    token_ids: np.ndarray  # (tokens,) int32
    offsets: np.ndarray  # (rows + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(rows,) int64: how many tokens each row holds."""
        return np.diff(self.offsets)

    @property
    def predicted(self) -> np.ndarray:
        """(rows,) int64: how many tokens each row predicts, one less than it holds."""
        return self.lengths - 1

    @property
    def predicted_count(self) -> int:
        return int(self.offsets[-1]) - len(self)

    def take(self, rows: np.ndarray) -> "TokenRows":
        """These rows in this order."""
        return stretches_of(self.token_ids, self.offsets[rows], self.lengths[rows])

    def read(self, first: int, last: int) -> "TokenRows":
        """Rows first … last - 1."""
        start, end = self.offsets[first], self.offsets[last]
        return TokenRows(self.token_ids[start:end], self.offsets[first : last + 1] - start)

    def close(self) -> None:
        """Rows in memory hold nothing open; those of a file do (reading.StoredSplit)."""


def rows_of(lines: list[list[int]]) -> TokenRows:
    """Lists as rows."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    token_ids = np.fromiter(chain.from_iterable(lines), np.int32, int(lengths.sum()))
    return TokenRows(token_ids, ends(lengths))


def joined(parts: list[TokenRows]) -> TokenRows:
    """The rows of all parts, one part after the other."""
    return TokenRows(
        np.concatenate([np.zeros(0, np.int32), *(part.token_ids for part in parts)]),
        ends(np.concatenate([np.zeros(0, np.int64), *(part.lengths for part in parts)])),
    )


def sentences(lines: TokenRows, context_length: int) -> TokenRows:
    """Each line a row: `<bos>` before it as context, `<eos>` after it to predict.

    A line of more predicted tokens than `context_length` becomes consecutive rows that overlap by one
    token, so that each token is predicted once. A blank line is no sentence and gives no row.
    """
    lines = lines.take(np.flatnonzero(lines.lengths))
    whole = framed(lines)
    predicted = whole.predicted
    if not len(predicted) or predicted.max() <= context_length:
        return whole
    pieces = -(-predicted // context_length)  # rows that each line becomes
    nth = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.repeat(whole.offsets[:-1], pieces) + nth * context_length
    lengths = np.minimum(context_length, np.repeat(predicted, pieces) - nth * context_length) + 1
    return stretches_of(whole.token_ids, starts, lengths)


def framed(lines: TokenRows) -> TokenRows:
    """`<bos>` before and `<eos>` after each row."""
    offsets = ends(lines.lengths + 2)
    token_ids = np.empty(offsets[-1], np.int32)
    inside = np.ones(len(token_ids), bool)
    inside[offsets[:-1]] = inside[offsets[1:] - 1] = False
    token_ids[offsets[:-1]], token_ids[offsets[1:] - 1] = BOS, EOS
    token_ids[inside] = lines.token_ids
    return TokenRows(token_ids, offsets)


def running_text(lines: TokenRows) -> np.ndarray:
    """(tokens,) int32: the lines one after the other, `<eos>` for each line's end."""
    return np.insert(lines.token_ids, lines.offsets[1:], EOS).astype(np.int32)


class StreamCutter:
    """One running text as ordered blocks of `block_length` predicted tokens that overlap by one token.

    The stream begins with `<bos>`, context for its first token.
    """

    def __init__(self, block_length: int) -> None:
        self.block_length = block_length
        self.waiting = np.array([BOS], np.int32)

    def add(self, text: np.ndarray) -> TokenRows:
        """The blocks that are full now."""
        stream = np.concatenate([self.waiting, text])
        blocks = (len(stream) - 1) // self.block_length
        self.waiting = stream[blocks * self.block_length :]
        starts = np.arange(blocks) * self.block_length
        return stretches_of(stream, starts, np.full(blocks, self.block_length + 1))

    def finish(self) -> TokenRows:
        """What is left, if it predicts a token."""
        rest = self.waiting if len(self.waiting) > 1 else self.waiting[:0]
        return TokenRows(rest, np.array([0, len(rest)] if len(rest) else [0], np.int64))


def stretches_of(token_ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> TokenRows:
    """token_ids[starts[i]:starts[i] + lengths[i]] as rows; stretches may overlap."""
    offsets = ends(lengths)
    positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return TokenRows(token_ids[positions], offsets)


def ends(lengths: np.ndarray) -> np.ndarray:
    """(n,) lengths → (n + 1,) offsets, beginning with 0."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
