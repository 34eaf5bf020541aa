"""Lines cut off after context_length tokens instead of being continued (sequences.long_lines=truncate).

A textbook's training loop does so. It makes perplexity one of the beginnings of lines. Bits per byte stay those of the
whole text: the rest of each line, with its line feed, is spelled out at 8 bits a byte.
"""

from dataclasses import dataclass

import numpy as np

from rnnlm.metrics import SPELLED_BYTE_BITS, utf8_bytes
from rnnlm.sequences.segmentation import TokenRows, cut_rows, framed
from rnnlm.tokenizers.text_tokenizer import TextTokenizer


@dataclass(frozen=True)
class LineBeginnings:
    """Lines up to their last stored token; a line that fits is whole."""

    texts: list[str]
    lines: TokenRows  # without `<bos>` and `<eos>`
    rest_bits: np.ndarray  # (lines,) float64: to spell out the rest of each line and its line feed; 0 for a whole line


def beginnings(tokenizer: TextTokenizer, texts: list[str], lines: TokenRows, context_length: int) -> LineBeginnings:
    """Return the beginnings of lines that were cut. A line of context_length tokens loses only its `<eos>`.

    texts, lines: whole lines and their tokens.
    """
    kept_texts, rest_bits = list(texts), np.zeros(len(texts))
    for line in np.flatnonzero(lines.lengths + 1 > context_length).tolist():
        end = kept_characters(tokenizer, texts[line], context_length)
        kept_texts[line] = texts[line][:end]
        rest_bits[line] = SPELLED_BYTE_BITS * (utf8_bytes(texts[line][end:]) + 1)
    kept = cut_rows(lines.token_ids, lines.offsets[:-1], np.minimum(lines.lengths, context_length))
    return LineBeginnings(kept_texts, kept, rest_bits)


def kept_characters(tokenizer: TextTokenizer, line: str, token_count: int) -> int:
    """Return how many characters the first tokens restore.

    A character that the next token shares, byte by byte, is lost.
    """
    spans = tokenizer.spans(line)
    if len(spans) == token_count:
        return len(line)
    return min(spans[token_count - 1][2], spans[token_count][1])


def first_rows(lines: TokenRows, context_length: int) -> TokenRows:
    """Return one row per line as sentences() cuts it: of a long line only the first. A blank line has no row."""
    rows = framed(lines.take(np.flatnonzero(lines.lengths)))
    return cut_rows(rows.token_ids, rows.offsets[:-1], np.minimum(rows.lengths, context_length + 1))
