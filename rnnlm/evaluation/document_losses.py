"""The loss of each document under a model, for promotion, serving, bulk scoring and the evaluation harness.

A document is split into rows in the same way as the model's training text. In `sentence` mode each line is a row
(several rows if it is long), and the state before it is zero. In `stream` mode the whole document is one text. Every
token is predicted exactly once, including the `<eos>` of each line. The end of a line always counts as one byte, even
if the last line has no line feed, so that bits per byte do not depend on how the text was read.

The module is copied into every registered model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, Protocol

import numpy as np
import torch

from ..metrics import Score, utf8_bytes
from ..models.language_model import LanguageModel
from ..sequences.segmentation import (
    TokenRows,
    encoded_lines,
    ends,
    predicted_by_line,
    running_text,
    sentences,
    sums_between,
    tokenization_loss,
)
from ..sequences.shift import contexts, shifted_rows
from ..tokenizers.text_tokenizer import BOS, TextTokenizer
from .batch_losses import finite
from .shared_prefix_scoring import nll_of_rows_sharing_prefixes


class Cut(Protocol):
    """The settings by which text is split into rows. SequencesConfig implements this interface."""

    @property
    def mode(self) -> Literal["sentence", "stream"]: ...

    @property
    def context_length(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class DocumentLoss(Score):
    """The score of one document, with its tokens. The arrays are empty if the document has no token to predict."""

    token_ids: np.ndarray  # (tokens,) int32: the predicted tokens in the order of the text.
    nll_nats: np.ndarray  # (tokens,) float32: the loss of each token.


@dataclass(frozen=True, kw_only=True)
class LineLosses:
    """The losses of each line of many documents as columns, (lines,) each, document by document."""

    counts: np.ndarray  # (documents,) int64: the number of lines of each document.
    tokens: np.ndarray  # int64: the number of predicted tokens.
    nll_nats: np.ndarray  # float64: the sum of the losses of the line's tokens.
    restoration_bits: np.ndarray  # float64: the number of bits needed to restore the line from its tokens.
    byte_count: np.ndarray  # int64: the number of bytes, including the end of the line.


@dataclass(frozen=True, kw_only=True)
class DocumentLosses:
    """The scores of many documents as columns, and their tokens one after the other.

    Iterating yields one DocumentLoss for each document.
    """

    summed_nll_nats: np.ndarray  # (documents,) float64
    tokens: np.ndarray  # (documents,) int64, like the other integer columns.
    byte_count: np.ndarray
    unknown_tokens: np.ndarray
    restoration_bits: np.ndarray  # (documents,) float64
    token_ids: np.ndarray  # (tokens,) int32
    nll_nats: np.ndarray  # (tokens,) float32
    lines: LineLosses

    def __len__(self) -> int:
        return len(self.tokens)

    def __iter__(self) -> Iterator[DocumentLoss]:
        bounds = ends(self.tokens)
        columns = (self.summed_nll_nats, self.tokens, self.byte_count, self.unknown_tokens, self.restoration_bits)
        for first, last, *score in zip(bounds, bounds[1:], *(column.tolist() for column in columns), strict=False):
            nats, tokens, byte_count, unknown_tokens, restoration_bits = score
            yield DocumentLoss(
                summed_nll_nats=nats,
                tokens=tokens,
                byte_count=byte_count,
                unknown_tokens=unknown_tokens,
                restoration_bits=restoration_bits,
                token_ids=self.token_ids[first:last],
                nll_nats=self.nll_nats[first:last],
            )


def document_losses(
    model: LanguageModel,
    tokenizer: TextTokenizer,
    texts: Sequence[str],
    cut: Cut,
    batch_size: int = 64,
    tail_dtype: torch.dtype = torch.float32,
    known_nll: Iterator[float] | None = None,
) -> DocumentLosses:
    """Return the losses of the texts in the given order. All texts together must fit into memory.

    Args:
        model: The model.
        tokenizer: The model's tokenizer.
        texts: The documents.
        cut: The settings by which the documents are split into rows.
        batch_size: The number of rows in a batch, which changes the results only by rounding.
        tail_dtype: The precision of products with rare classes; see LogNormalizer.
        known_nll: The losses of all tokens in the order of the texts, if they are known. The model is then not
            evaluated.
    """
    documents = [text.removesuffix("\n").split("\n") for text in texts]
    line_texts = list(chain.from_iterable(documents))
    line_counts = np.fromiter(map(len, documents), np.int64, len(texts))
    lines = encoded_lines(tokenizer, line_texts)
    rows = rows_of_documents(lines, line_counts, cut)
    first_lines = ends(line_counts)  # The index of each document's first line.
    predicted = predicted_by_line(lines, cut.mode)
    tokens = sums_between(predicted, first_lines)
    _, token_ids = shifted_rows(rows)
    if known_nll is not None:
        nll_nats = finite(np.fromiter(islice(known_nll, rows.predicted_count), np.float32, rows.predicted_count))
    else:
        if model.mixture is not None and model.mixture.is_alone:
            nll_nats = np.zeros(rows.predicted_count, np.float32)
        else:
            nll_nats = nll_of_rows_sharing_prefixes(model, rows, batch_size, tail_dtype)
        if model.mixture is not None:
            nll_nats = model.mixture.nll(nll_nats, *contexts(rows, model.mixture.context_length))
    unknown_tokens, restoration_bits = tokenization_loss(tokenizer, line_texts, lines, cut.mode)
    byte_count = np.fromiter(map(utf8_bytes, texts), np.int64, len(texts))
    open_ended = np.fromiter((not text.endswith("\n") for text in texts), bool, len(texts))
    return DocumentLosses(
        summed_nll_nats=sums_between(nll_nats.astype(np.float64), ends(tokens)),
        tokens=tokens,
        byte_count=byte_count + (open_ended & (tokens > 0)),
        unknown_tokens=sums_between(unknown_tokens, first_lines),
        restoration_bits=sums_between(restoration_bits, first_lines),
        token_ids=token_ids,
        nll_nats=nll_nats,
        lines=LineLosses(
            counts=line_counts,
            tokens=predicted,
            nll_nats=sums_between(nll_nats.astype(np.float64), ends(predicted)),
            restoration_bits=restoration_bits,
            byte_count=np.fromiter((utf8_bytes(line) + 1 for line in line_texts), np.int64, len(line_texts)),
        ),
    )


def rows_of_documents(lines: TokenRows, line_counts: np.ndarray, cut: Cut) -> TokenRows:
    """Return the rows that a model reads, in the order of the documents.

    `line_counts`, (documents,), contains the number of lines of each document.
    """
    if cut.mode == "sentence":
        return sentences(lines, cut.context_length)
    lengths = np.diff(ends(lines.lengths + 1)[ends(line_counts)])
    # In stream mode, all lines of a document become one row.
    text = np.insert(running_text(lines), ends(lengths)[:-1], BOS)
    return TokenRows(text, ends(lengths + 1))
