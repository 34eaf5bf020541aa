"""What whole documents cost under a model, each by itself: what promotion, serving and bulk scoring have in common.

A document is cut as the model's training text was. In `sentence` mode each line is a row, or several where it is
long, with state zero before it; in `stream` mode the document is one running text. Every token is predicted once,
each line's `<eos>` among them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.shared_prefix_scoring import nll_of_alike_rows
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.segmentation import (
    TokenRows,
    ends,
    predicted_by_line,
    rows_from_lists,
    running_text,
    sentences,
    sums_between,
    unsaid_by_line,
)
from rnnlm.sequences.shift import shifted_rows
from rnnlm.tokenizers.text_tokenizer import BOS, TextTokenizer, utf8_bytes

KnownNll = Callable[[int], np.ndarray]  # n → (n,) float32, nats


@dataclass(frozen=True)
class DocumentLoss:
    """Of one document. Empty arrays where it predicts nothing."""

    token_ids: np.ndarray  # (tokens,) int32: predicted, in the order of the text
    nll_nats: np.ndarray  # (tokens,) float32
    byte_count: int  # UTF-8, line ends included
    unknown_tokens: int  # words that the vocabulary cannot spell
    restoration_bits: float  # what restores the text from its tokens: see TextTokenizer.restoration_bits

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    @cached_property
    def summed_nll_nats(self) -> float:
        """Of the tokens alone; minus this is the document's log-probability."""
        return float(self.nll_nats.sum(dtype=np.float64))

    @property
    def perplexity(self) -> float:
        """Per token; NaN where nothing is predicted."""
        return math.exp(min(700.0, self.summed_nll_nats / self.tokens)) if self.tokens else math.nan

    @property
    def total_nats(self) -> float:
        """What it costs to write the document out: its tokens, and what restores the text from them."""
        return self.summed_nll_nats + self.restoration_bits * math.log(2)

    @property
    def bits_per_byte(self) -> float:
        """NaN for an empty document."""
        return self.total_nats / math.log(2) / self.byte_count if self.byte_count else math.nan


def document_losses(
    model: ElmanLanguageModel,
    tokenizer: TextTokenizer,
    texts: Sequence[str],
    cut: SequencesConfig,
    batch_size: int = 64,
    tail: torch.dtype = torch.float32,
    known_nll: KnownNll | None = None,
) -> list[DocumentLoss]:
    """One for each text, in their order; together they must fit in memory. batch_size changes nothing but rounding.

    tail: precision of the products with rare classes (contexts.Normalizer); below float32 it is faster, and changes
    each token's loss a little. known_nll: gives the next n losses of the texts, if they are known already; the model
    is not asked then.
    """
    documents = [text.removesuffix("\n").split("\n") for text in texts]
    line_counts = np.array([len(document) for document in documents], np.int64)
    line_texts = [line for document in documents for line in document]
    lines = rows_from_lists(tokenizer.encode_lines(line_texts))
    rows = sentences(lines, cut.context_length) if cut.mode == "sentence" else streams(lines, line_counts)
    first_lines = ends(line_counts)  # of each document in the lines of all; likewise in the tokens:
    bounds = ends(predicted_by_line(lines, cut.mode))[first_lines].tolist()
    _, token_ids = shifted_rows(rows)
    if known_nll is None:
        nll_nats = nll_of_alike_rows(model, rows, batch_size, tail)
    else:
        nll_nats = known_nll(int(rows.predicted.sum()))
    unsaid = (sums_between(part, first_lines) for part in unsaid_by_line(tokenizer, line_texts, lines, cut.mode))
    return [
        DocumentLoss(token_ids[first:last], nll_nats[first:last], utf8_bytes(text), int(words), float(bits))
        for text, words, bits, first, last in zip(texts, *unsaid, bounds, bounds[1:], strict=False)
    ]


def in_order(nll_nats: np.ndarray) -> KnownNll:
    """The losses, from the first one on."""
    done = 0

    def take(count: int) -> np.ndarray:
        nonlocal done
        done += count
        return np.asarray(nll_nats[done - count : done])

    return take


def streams(lines: TokenRows, line_counts: np.ndarray) -> TokenRows:
    """Each document's lines as one row: `<bos>`, then its running text."""
    lengths = np.diff(ends(lines.lengths + 1)[ends(line_counts)])
    text = np.insert(running_text(lines), ends(lengths)[:-1], BOS)
    return TokenRows(text, ends(lengths + 1))
