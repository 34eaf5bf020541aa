"""What lines of text will count in every figure: the tokens they predict, and the words they cannot spell."""

from typing import Literal

import numpy as np

from rnnlm.sequences.cutting import TokenRows
from rnnlm.tokenizers.face import UNK, TextTokenizer


def predicted_by_line(lines: TokenRows, mode: Literal["sentence", "stream"]) -> np.ndarray:
    """(lines,) int64: a line's own tokens and `<eos>`; in `sentence` mode a blank line is no sentence."""
    return lines.lengths + 1 if mode == "stream" else np.where(lines.lengths > 0, lines.lengths + 1, 0)


def unspelled_by_line(tokenizer: TextTokenizer, texts: list[str], lines: TokenRows) -> np.ndarray:
    """(lines, 2) int64: how many words of each line the vocabulary cannot spell, and their UTF-8 bytes.

    lines: the texts' tokens. Most lines have no such word, and those are not looked at again.
    """
    found = np.zeros((len(texts), 2), np.int64)
    for line in lines_with_losses(tokenizer, lines):
        words = tokenizer.unknown_words(texts[line])
        dropped = utf8_bytes(tokenizer.dropped_text(texts[line]))
        found[line] = len(words), sum(map(utf8_bytes, words)) + dropped
    return found


def sums_between(numbers: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """numbers (lines, …), bounds (documents + 1,) → (documents, …): each document's sum of its lines' numbers."""
    totals = np.concatenate([np.zeros((1, *numbers.shape[1:]), np.int64), numbers.cumsum(axis=0)])
    sums: np.ndarray = totals[bounds[1:]] - totals[bounds[:-1]]
    return sums


def lines_with_losses(tokenizer: TextTokenizer, lines: TokenRows) -> list[int]:
    """The lines that the tokenizer could not spell completely."""
    if tokenizer.drops_text:
        return list(range(len(lines)))
    unknown = np.flatnonzero(lines.token_ids == UNK)
    found: list[int] = np.unique(np.searchsorted(lines.offsets, unknown, side="right") - 1).tolist()
    return found


def utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
