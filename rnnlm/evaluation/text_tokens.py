"""The rows that document_losses() reads for a text, and the position in the text of each scored token."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch

from rnnlm.evaluation.document_losses import Cut, rows_of_documents
from rnnlm.sequences.segmentation import encoded_lines
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS, TextTokenizer


def token_positions(tokenizer: TextTokenizer, cut: Cut, text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) in the text for each token that document_losses() scores. `<eos>` covers the line feed."""
    first = 0
    for line in text.removesuffix("\n").split("\n"):
        spans = [(first + start, first + end) for _, start, end in tokenizer.spans(line)]
        last = first + len(line)
        if spans or cut.mode == "stream":
            yield from spans
            # The range of this <eos> is empty if the text does not end with a line feed.
            yield last, min(last + 1, len(text))
        first = last + 1


def scored_rows(tokenizer: TextTokenizer, cut: Cut, text: str) -> Iterator[torch.Tensor]:
    """Yield the rows that document_losses() reads, (tokens,) int64 each. The first token of a row is not scored."""
    lines = encoded_lines(tokenizer, text.removesuffix("\n").split("\n"))
    rows = rows_of_documents(lines, np.array([len(lines)], np.int64), cut)
    for first, last in pairwise(rows.offsets):
        yield torch.from_numpy(rows.token_ids[first:last].astype(np.int64))


def spelling(tokenizer: TextTokenizer, token_id: int) -> str:
    """Return the text that represents a token in the output. Special tokens are represented by their names."""
    return SPECIAL_TOKENS[token_id] if token_id < len(SPECIAL_TOKENS) else tokenizer.decode([token_id])
