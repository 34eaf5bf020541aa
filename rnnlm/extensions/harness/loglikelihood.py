"""Compute the log-probability of a continuation after a context, for EleutherAI's harness.

The text is split into rows in the same way as the model's training text (rnnlm/evaluation/document_losses.py). In
`stream` mode, it is one continuous text with an `<eos>` for each line feed. In `sentence` mode, each line starts from a
state of zeros, so only the last line of the context has an effect. A text without context starts with `<bos>`. The
context may be of any length, because the state is carried from window to window.

For a word outside the vocabulary, the bits of its spelling are added to the loss, as in `rnnlm evaluate`
(TextTokenizer.spelling_bits). Without them, every unknown word would make a text more probable. White space between the
parts of a question is not scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import document_losses, rows_of_documents
from rnnlm.evaluation.shared_prefix_scoring import hidden_states
from rnnlm.losses.loss import CPU_ROWS
from rnnlm.metrics import NATS_PER_BIT
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.segmentation import TokenRows, encoded_lines, join_rows
from rnnlm.sequences.shift import contexts, shifted_rows
from rnnlm.tokenizers.text_tokenizer import UNK, TextTokenizer


@dataclass(frozen=True)
class ContinuationRows:
    """The rows of a text that have a token of the continuation as a target."""

    rows: TokenRows
    counts: np.ndarray  # For each row, the number of tokens at its end that belong to the continuation, (rows,) int64.
    spelling_bits: float  # The bits for spelling the continuation's words that are not in the vocabulary.


def text_log_likelihoods(
    model: LanguageModel, tokenizer: TextTokenizer, cut: SequencesConfig, texts: Sequence[str], batch_size: int
) -> list[float]:
    """Return the natural logarithm of each text's probability.

    It equals -bits_per_byte * bytes * ln(2), where bits_per_byte is the value that `rnnlm evaluate` prints. The `<eos>`
    of the last line is scored even if no line feed ends the text.
    """
    batches = (texts[first : first + batch_size] for first in range(0, len(texts), batch_size))
    losses = (document_losses(model, tokenizer, batch, cut, batch_size) for batch in batches)
    return [-loss.total_nats for batch in losses for loss in batch]


def continuation_rows(
    tokenizer: TextTokenizer, cut: SequencesConfig, context: str, continuation: str
) -> ContinuationRows:
    """Return the rows of the continuation.

    The continuation begins at the first token that differs from the tokens of the context alone. If a word or token
    spans the end of the context, it is therefore scored as part of the continuation.
    """
    both, before = open_rows(tokenizer, cut, context + continuation), open_rows(tokenizer, cut, context)
    shared = shared_length(shifted_rows(both)[1], shifted_rows(before)[1])
    counts = np.clip(np.cumsum(both.predicted) - shared, 0, both.predicted)
    rows = np.flatnonzero(counts)
    bits = spelling_bits(tokenizer, context + continuation) - spelling_bits(tokenizer, context)
    return ContinuationRows(both.take(rows), counts[rows], max(0.0, bits))


def open_rows(tokenizer: TextTokenizer, cut: SequencesConfig, text: str) -> TokenRows:
    """Return the text's rows. The last line has no `<eos>` unless a line feed ends it, because it may continue."""
    lines = encoded_lines(tokenizer, text.split("\n"))
    rows = rows_of_documents(lines, np.array([len(lines)]), cut)
    # In `sentence` mode, a blank last line has no row, so there is no `<eos>` to remove.
    if cut.mode == "stream" or lines.lengths[-1]:
        offsets = rows.offsets.copy()
        offsets[-1] -= 1
        rows = TokenRows(rows.token_ids[: offsets[-1]], offsets)
    return rows


def shared_length(a: np.ndarray, b: np.ndarray) -> int:
    """Return the length of the common prefix of two sequences, in tokens."""
    shortest = min(len(a), len(b))
    different = np.flatnonzero(a[:shortest] != b[:shortest])
    return int(different[0]) if len(different) else shortest


def spelling_bits(tokenizer: TextTokenizer, text: str) -> float:
    lines = text.split("\n")
    unknown = [tokenizer.encode(line).count(UNK) for line in lines]
    return sum(
        tokenizer.spelling_bits(count, tokenizer.unknown_words(line))
        for line, count in zip(lines, unknown, strict=True)
        if count
    )


@torch.inference_mode()
def score_continuations(
    model: LanguageModel, continuations: Sequence[ContinuationRows], batch_size: int
) -> list[tuple[float, bool]]:
    """Return the log-probability of each continuation in nats, and True if greedy decoding would generate it.

    The output layer, which takes most of the time, is computed only for the tokens of the continuations. `batch_size`
    affects only rounding.
    """
    rows = join_rows([one.rows for one in continuations])
    counts = np.concatenate([np.zeros(0, np.int64), *(one.counts for one in continuations)])
    places_left = np.repeat(np.cumsum(rows.predicted), rows.predicted) - np.arange(rows.predicted_count)
    # A mask of shape (tokens,), which is True for tokens of a continuation.
    counted = places_left <= np.repeat(counts, rows.predicted)
    before, _ = contexts(rows, model.context_length)
    nats, misses = np.zeros((2, len(counted)))
    for places, hidden, target_ids in hidden_states(model, rows, batch_size):
        wanted = counted[places]
        mask = torch.from_numpy(wanted)
        places, hidden, target_ids = places[wanted], hidden[mask], target_ids[mask]
        for first in range(0, len(places), CPU_ROWS):
            part = slice(first, first + CPU_ROWS)
            at, ids = places[part], target_ids[part]
            logits = model.mixed_logits(hidden[part], before[at].tolist()).float()
            nats[at] = functional.cross_entropy(logits, ids, reduction="none").cpu().numpy()
            misses[at] = (logits.argmax(dim=-1) != ids).cpu().numpy()
    sizes = [one.rows.predicted_count for one in continuations]
    owner = np.repeat(np.arange(len(continuations)), np.array(sizes, np.int64))
    total_nats, total_misses = (np.bincount(owner, values, len(continuations)) for values in (nats, misses))
    return [
        (-float(total_nats[index]) - one.spelling_bits * NATS_PER_BIT, not (total_misses[index] or one.spelling_bits))
        for index, one in enumerate(continuations)
    ]
