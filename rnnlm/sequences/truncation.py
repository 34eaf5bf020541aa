"""Truncation of lines after context_length tokens, without rows for the rest (sequences.long_lines=truncate).

Many textbooks train in this way. The perplexity then only measures the beginnings of lines. Bits per byte, however,
refer to the whole text, because the rest of each line and its line feed are counted as 8 bits per byte.
"""

from dataclasses import dataclass

import numpy as np

from rnnlm.metrics import SPELLED_BYTE_BITS, utf8_bytes
from rnnlm.sequences.segmentation import TokenRows, cut_rows, framed
from rnnlm.tokenizers.text_tokenizer import TextTokenizer


@dataclass(frozen=True)
class LineBeginnings:
    """The beginning of each line, up to its last stored token. The beginning of a short line is the whole line."""

    texts: list[str]
    lines: TokenRows  # The tokens of each beginning, without `<bos>` and `<eos>`.
    # The number of bits for the rest of each line and its line feed, (lines,) float64. It is 0 for a complete line.
    rest_bits: np.ndarray


def beginnings(tokenizer: TextTokenizer, texts: list[str], lines: TokenRows, context_length: int) -> LineBeginnings:
    """Return the beginnings of truncated lines. A line of exactly context_length tokens loses only its `<eos>`.

    `texts` are the whole lines and `lines` are their tokens.
    """
    kept_texts, rest_bits = list(texts), np.zeros(len(texts))
    for line in np.flatnonzero(lines.lengths + 1 > context_length).tolist():
        end = kept_characters(tokenizer, texts[line], context_length)
        kept_texts[line] = texts[line][:end]
        rest_bits[line] = SPELLED_BYTE_BITS * (utf8_bytes(texts[line][end:]) + 1)
    kept = cut_rows(lines.token_ids, lines.offsets[:-1], np.minimum(lines.lengths, context_length))
    return LineBeginnings(kept_texts, kept, rest_bits)


def kept_characters(tokenizer: TextTokenizer, line: str, token_count: int) -> int:
    """Return the number of characters of the line that can be restored from its first `token_count` tokens.

    A character whose bytes belong partly to the next token cannot be restored.
    """
    spans = tokenizer.spans(line)
    if len(spans) == token_count:
        return len(line)
    return min(spans[token_count - 1][2], spans[token_count][1])


def first_rows(lines: TokenRows, context_length: int) -> TokenRows:
    """Return only the first of the rows into which sentences() splits each line. A blank line has no row."""
    rows = framed(lines.take(np.flatnonzero(lines.lengths)))
    return cut_rows(rows.token_ids, rows.offsets[:-1], np.minimum(rows.lengths, context_length + 1))
