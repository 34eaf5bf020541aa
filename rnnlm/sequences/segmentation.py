"""The division of a corpus into rows of token ids, by sentence or as one stream, and the numbers of tokens per line."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from ..tokenizers.text_tokenizer import BOS, EOS, UNK, TextTokenizer

Mode = Literal["sentence", "stream"]


@dataclass(frozen=True)
class TokenRows:
    """Concatenated rows of token ids. Row i is token_ids[offsets[i]:offsets[i + 1]]."""

    token_ids: np.ndarray  # (tokens,) int32
    offsets: np.ndarray  # (rows + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row, (rows,) int64."""
        return np.diff(self.offsets)

    @property
    def predicted(self) -> np.ndarray:
        """The number of predicted tokens of each row, (rows,) int64, which is one less than its tokens."""
        return self.lengths - 1

    @property
    def predicted_count(self) -> int:
        return int(self.offsets[-1]) - len(self)

    def take(self, rows: np.ndarray) -> "TokenRows":
        """Return the rows with the numbers `rows`, in this order."""
        return cut_rows(self.token_ids, self.offsets[rows], self.lengths[rows])

    def read(self, first: int, last: int) -> "TokenRows":
        """Return the rows from `first` to `last` - 1."""
        start, end = self.offsets[first], self.offsets[last]
        return TokenRows(self.token_ids[start:end], self.offsets[first : last + 1] - start)

    def close(self) -> None:
        """Do nothing, because no file is open. The method is part of RowSource."""


def rows_from_lists(lines: list[list[int]]) -> TokenRows:
    """Return lists of ids as TokenRows."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    token_ids = np.fromiter(chain.from_iterable(lines), np.int32, int(lengths.sum()))
    return TokenRows(token_ids, ends(lengths))


def encoded_lines(tokenizer: TextTokenizer, lines: Sequence[str]) -> TokenRows:
    """Return one row of ids for each line, without `<bos>` and `<eos>`."""
    token_ids, lengths = tokenizer.encode_lines(lines)
    return TokenRows(token_ids, ends(lengths))


def join_rows(parts: list[TokenRows]) -> TokenRows:
    """Return the rows of all parts, one part after the other."""
    return TokenRows(
        np.concatenate([np.zeros(0, np.int32), *(part.token_ids for part in parts)]),
        ends(np.concatenate([np.zeros(0, np.int64), *(part.lengths for part in parts)])),
    )


def sentences(lines: TokenRows, context_length: int) -> TokenRows:
    """Return one row for each line, with `<bos>` before it as context and `<eos>` after it to predict.

    A line with more than `context_length` predicted tokens becomes several consecutive rows. They overlap by one token,
    so that each token is predicted exactly once. A blank line has no row.
    """
    lines = lines.take(np.flatnonzero(lines.lengths))
    framed_lines = framed(lines)
    predicted = framed_lines.predicted
    if not len(predicted) or predicted.max() <= context_length:
        return framed_lines
    pieces = -(-predicted // context_length)  # The number of rows into which each line is split.
    nth = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.repeat(framed_lines.offsets[:-1], pieces) + nth * context_length
    lengths = np.minimum(context_length, np.repeat(predicted, pieces) - nth * context_length) + 1
    return cut_rows(framed_lines.token_ids, starts, lengths)


def framed(lines: TokenRows) -> TokenRows:
    """Return the rows with `<bos>` before each row and `<eos>` after it."""
    offsets = ends(lines.lengths + 2)
    token_ids = np.empty(offsets[-1], np.int32)
    inside = np.ones(len(token_ids), bool)
    inside[offsets[:-1]] = inside[offsets[1:] - 1] = False
    token_ids[offsets[:-1]], token_ids[offsets[1:] - 1] = BOS, EOS
    token_ids[inside] = lines.token_ids
    return TokenRows(token_ids, offsets)


def running_text(lines: TokenRows) -> np.ndarray:
    """Return all lines joined, with `<eos>` after each line, (tokens,) int32."""
    return np.insert(lines.token_ids, lines.offsets[1:], EOS).astype(np.int32)


class StreamCutter:
    """A cutter of a stream into blocks of `block_length` predicted tokens, which overlap by one token.

    The stream begins with `<bos>`, which is the context of the first token.
    """

    def __init__(self, block_length: int) -> None:
        self.block_length = block_length
        self.waiting = np.array([BOS], np.int32)

    def add(self, text: np.ndarray) -> TokenRows:
        """Append text to the stream, and return the blocks that are full."""
        stream = np.concatenate([self.waiting, text])
        blocks = (len(stream) - 1) // self.block_length
        self.waiting = stream[blocks * self.block_length :]
        starts = np.arange(blocks) * self.block_length
        return cut_rows(stream, starts, np.full(blocks, self.block_length + 1))

    def finish(self) -> TokenRows:
        """Return the last block, which may be shorter, or no row if there is no token left to predict."""
        rest = self.waiting if len(self.waiting) > 1 else self.waiting[:0]
        return TokenRows(rest, np.array([0, len(rest)] if len(rest) else [0], np.int64))


def cut_rows(token_ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> TokenRows:
    """Return token_ids[starts[i]:starts[i] + lengths[i]] for all i as rows. These ranges may overlap."""
    offsets = ends(lengths)
    positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return TokenRows(token_ids[positions], offsets)


def ends(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets of rows with these lengths, (n + 1,), beginning with 0. `lengths` has shape (n,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def predicted_by_line(lines: TokenRows, mode: Mode) -> np.ndarray:
    """Return the number of predicted tokens of each line, (lines,) int64, including `<eos>`.

    In sentence mode a blank line has no predicted token.
    """
    return lines.lengths + 1 if mode == "stream" else np.where(lines.lengths > 0, lines.lengths + 1, 0)


def tokenization_loss(
    tokenizer: TextTokenizer, texts: list[str], lines: TokenRows, mode: Mode
) -> tuple[np.ndarray, np.ndarray]:
    """Return the information that tokenization loses in each line.

    The results are the number of unknown words, (lines,) int64, and the number of bits needed to restore the line,
    (lines,) float64; see TextTokenizer.restoration_bits. `texts` are the lines and `lines` are their tokens.
    """
    lengths = lines.lengths
    unknown_counts = np.diff(np.concatenate([[0], np.cumsum(lines.token_ids == UNK)])[lines.offsets])
    words, bits = np.zeros(len(texts), np.int64), np.zeros(len(texts))
    dropped = mode == "sentence"
    # Without unknown words, a line loses information only in a word tokenizer, or if it has no tokens.
    lossy = (unknown_counts > 0) | (lengths == 0) | (tokenizer.kind == "word")
    for line in np.flatnonzero(lossy).tolist():
        text, tokens, unknown = texts[line], int(lengths[line]), int(unknown_counts[line])
        unknown_words = tokenizer.unknown_words(text) if unknown else []
        words[line] = len(unknown_words)
        bits[line] = tokenizer.restoration_bits(text, tokens, unknown, unknown_words, dropped)
    return words, bits


def sums_between(numbers: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the sum of `numbers`, (lines,), over the lines of each document, (documents,).

    The lines of document i are those from bounds[i] to bounds[i + 1] - 1; `bounds` has shape (documents + 1,).
    """
    if len(bounds) < 2:
        return numbers[:0]
    sums: np.ndarray = np.add.reduceat(np.append(numbers, 0), bounds[:-1])
    # The sum over an empty range is set to 0, because reduceat returns the number at its start.
    return np.where(np.diff(bounds) > 0, sums, 0)
