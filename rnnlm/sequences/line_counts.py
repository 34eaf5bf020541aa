"""What lines of text count in every figure: the tokens they predict, and what their tokens do not say of them."""

from typing import Literal

import numpy as np

from ..tokenizers.text_tokenizer import UNK, TextTokenizer
from .segmentation import TokenRows


def predicted_by_line(lines: TokenRows, mode: Literal["sentence", "stream"]) -> np.ndarray:
    """(lines,) int64: a line's own tokens and `<eos>`; in `sentence` mode a blank line is no sentence."""
    return lines.lengths + 1 if mode == "stream" else np.where(lines.lengths > 0, lines.lengths + 1, 0)


def unsaid_by_line(
    tokenizer: TextTokenizer, texts: list[str], lines: TokenRows, mode: Literal["sentence", "stream"]
) -> tuple[np.ndarray, np.ndarray]:
    """What the tokens do not say of each line: (lines,) int64, its words that the vocabulary cannot spell, and
    (lines,) float64, the bits that restore the line (TextTokenizer.restoration_bits).

    lines: the texts' tokens.
    """
    unknown_counts = np.diff(np.concatenate([[0], np.cumsum(lines.token_ids == UNK)])[lines.offsets])
    words, bits = np.zeros(len(texts), np.int64), np.zeros(len(texts))
    dropped = mode == "sentence"
    # Only a word tokenizer loses anything of a line without unknown words.
    worth_a_look = (unknown_counts > 0) | (lines.lengths == 0) | (tokenizer.kind == "word")
    for line in np.flatnonzero(worth_a_look).tolist():
        unknown = int(unknown_counts[line])
        words[line] = len(tokenizer.unknown_words(texts[line])) if unknown else 0
        bits[line] = tokenizer.restoration_bits(texts[line], int(lines.lengths[line]), unknown, dropped)
    return words, bits


def sums_between(numbers: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """numbers (lines,), bounds (documents + 1,) → (documents,): each document's sum of its lines' numbers."""
    if len(bounds) < 2:
        return numbers[:0]
    sums: np.ndarray = np.add.reduceat(np.append(numbers, 0), bounds[:-1])
    return np.where(np.diff(bounds) > 0, sums, 0)  # reduceat gives an empty stretch the number at its place
