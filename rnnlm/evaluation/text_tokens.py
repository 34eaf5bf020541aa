"""The tokens of a text as document_losses() scores them: the rows that the model reads, and each token's place."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch

from rnnlm.evaluation.document_losses import Cut, rows_of_documents
from rnnlm.sequences.segmentation import encoded_lines
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS, TextTokenizer


def token_positions(tokenizer: TextTokenizer, cut: Cut, text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) in the text of each token that document_losses() scores; `<eos>` covers its line feed."""
    first = 0
    for line in text.removesuffix("\n").split("\n"):
        spans = [(first + start, first + end) for _, start, end in tokenizer.spans(line)]
        last = first + len(line)
        if spans or cut.mode == "stream":
            yield from spans
            yield last, min(last + 1, len(text))  # empty if no line feed ends the last line
        first = last + 1


def scored_rows(tokenizer: TextTokenizer, cut: Cut, text: str) -> Iterator[torch.Tensor]:
    """Yield the rows that document_losses() reads, (tokens,) int64 each. The first token is context."""
    lines = encoded_lines(tokenizer, text.removesuffix("\n").split("\n"))
    rows = rows_of_documents(lines, np.array([len(lines)], np.int64), cut)
    for first, last in pairwise(rows.offsets):
        yield torch.from_numpy(rows.token_ids[first:last].astype(np.int64))


def spelling(tokenizer: TextTokenizer, token_id: int) -> str:
    """Return how to show a single token; special tokens by their names."""
    return SPECIAL_TOKENS[token_id] if token_id < len(SPECIAL_TOKENS) else tokenizer.decode([token_id])
