"""Log-probability of a continuation after a context, for EleutherAI's harness.

Text is split into rows as the model's training text was (rnnlm/evaluation/document_losses.py). In `stream` mode it is
one running text with an `<eos>` per line feed. In `sentence` mode each line starts from state zero, so only the
context's last line counts. A text without context starts with `<bos>`. The context may be of any length: the state is
carried from window to window.

Unknown words cost their spelling, as in `rnnlm evaluate` (TextTokenizer.spelling_bits): otherwise a text would become
more probable with every unknown word. White space between the parts of a question is not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import document_losses, streams
from rnnlm.losses.loss import CPU_ROWS
from rnnlm.metrics import NATS_PER_BIT
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import histories
from rnnlm.sequences.batches import EVALUATION_WINDOW, Batch, by_length, length_groups, padded
from rnnlm.sequences.segmentation import TokenRows, join_rows, rows_from_lists, sentences
from rnnlm.sequences.shift import shifted_rows
from rnnlm.tokenizers.text_tokenizer import UNK, TextTokenizer


@dataclass(frozen=True)
class ContinuationRows:
    """The rows that predict a continuation's tokens; rows without such a token are left out."""

    rows: TokenRows
    counts: np.ndarray  # (rows,) int64: how many of the row's last tokens belong to the continuation
    spelling_bits: float  # cost of the words that the vocabulary cannot spell


def text_log_likelihoods(
    model: LanguageModel, tokenizer: TextTokenizer, cut: SequencesConfig, texts: Sequence[str], batch_size: int
) -> list[float]:
    """Natural logarithm of each text's probability: minus bits per byte as in `rnnlm evaluate`, times bytes, in nats.

    The last line's `<eos>` is predicted even if no line feed ends it.
    """
    log_likelihoods: list[float] = []
    for first in range(0, len(texts), batch_size):
        losses = document_losses(model, tokenizer, texts[first : first + batch_size], cut, batch_size)
        log_likelihoods += [-loss.total_nats for loss in losses]
    return log_likelihoods


def continuation_rows(
    tokenizer: TextTokenizer, cut: SequencesConfig, context: str, continuation: str
) -> ContinuationRows:
    """The rows of the continuation: from the first token where context + continuation differs from the context alone.

    A word that starts in the context and ends in the continuation belongs to the continuation. Otherwise text that
    joins the context's last token would cost nothing.
    """
    both, before = open_rows(tokenizer, cut, context + continuation), open_rows(tokenizer, cut, context)
    shared = shared_length(shifted_rows(both)[1], shifted_rows(before)[1])
    counts = np.clip(np.cumsum(both.predicted) - shared, 0, both.predicted)
    rows = np.flatnonzero(counts)
    bits = spelling_bits(tokenizer, context + continuation) - spelling_bits(tokenizer, context)
    return ContinuationRows(both.take(rows), counts[rows], max(0.0, bits))


def open_rows(tokenizer: TextTokenizer, cut: SequencesConfig, text: str) -> TokenRows:
    """The text's rows; its last line has no `<eos>` unless a line feed ends it, because it may continue."""
    lines = rows_from_lists(tokenizer.encode_lines(text.split("\n")))
    if cut.mode == "stream":
        rows, continues = streams(lines, np.array([len(lines)])), True  # the last piece of a split has no line feed
    else:
        rows, continues = sentences(lines, cut.context_length), bool(lines.lengths[-1])  # a blank line has no row
    if continues:
        offsets = rows.offsets.copy()
        offsets[-1] -= 1
        rows = TokenRows(rows.token_ids[: offsets[-1]], offsets)
    return rows


def shared_length(a: np.ndarray, b: np.ndarray) -> int:
    """Length of the common prefix, in tokens."""
    shortest = min(len(a), len(b))
    different = np.flatnonzero(a[:shortest] != b[:shortest])
    return int(different[0]) if len(different) else shortest


def spelling_bits(tokenizer: TextTokenizer, text: str) -> float:
    lines = text.split("\n")
    unknown = [ids.count(UNK) for ids in tokenizer.encode_lines(lines)]
    return sum(
        tokenizer.spelling_bits(count, tokenizer.unknown_words(line))
        for line, count in zip(lines, unknown, strict=True)
        if count
    )


def score_continuations(
    model: LanguageModel, continuations: Sequence[ContinuationRows], batch_size: int
) -> list[tuple[float, bool]]:
    """(log-probability in nats, whether greedy decoding gives it) of each continuation.

    batch_size changes results by rounding only.
    """
    rows = join_rows([one.rows for one in continuations])
    counts = np.concatenate([np.zeros(0, np.int64), *(one.counts for one in continuations)])
    owner = np.repeat(np.arange(len(continuations)), np.array([len(one.rows) for one in continuations], np.int64))
    nats, misses = np.zeros(len(rows)), np.zeros(len(rows))
    for group in length_groups(by_length(np.arange(len(rows)), rows.lengths), rows.lengths, batch_size):
        (batch,) = padded(rows.take(group), len(group))
        nats[group], misses[group] = read_ends(model, batch, torch.from_numpy(counts[group]))
    total_nats = np.bincount(owner, nats, len(continuations))
    total_misses = np.bincount(owner, misses, len(continuations))
    return [
        (-float(total_nats[index]) - one.spelling_bits * NATS_PER_BIT, not (total_misses[index] or one.spelling_bits))
        for index, one in enumerate(continuations)
    ]


@torch.inference_mode()
def read_ends(model: LanguageModel, batch: Batch, counts: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """For each row's last `counts` (batch,) tokens: their summed loss in nats and how many are not the most probable.

    Both are (batch,) float64. Only these tokens go through the head, which is most of the work.
    """
    device = model.embedding.weight.device
    ends = batch.mask.sum(dim=1, keepdim=True)
    positions = torch.arange(batch.target_ids.shape[1])
    counted = (positions >= ends - counts[:, None]) & (positions < ends)
    nats, misses = torch.zeros(2, len(ends), dtype=torch.float64)
    state = None
    contexts = torch.from_numpy(histories(batch.input_ids.numpy(), model.context_length).copy())
    parts_of_batch = (batch.input_ids, batch.target_ids, counted, contexts)
    windows = (part.split(EVALUATION_WINDOW, dim=1) for part in parts_of_batch)
    for input_ids, target_ids, wanted, before in zip(*windows, strict=True):
        hidden, state = model.hidden(input_ids.to(device), state)
        parts = (wanted.nonzero()[:, 0], hidden[wanted.to(device)], target_ids[wanted].to(device), before[wanted])
        for rows, vectors, ids, last in zip(*(part.split(CPU_ROWS) for part in parts), strict=True):
            logits = model.mixed_logits(vectors, last.tolist()).float()
            losses = functional.cross_entropy(logits, ids, reduction="none")
            nats.index_add_(0, rows, losses.cpu().double())
            misses.index_add_(0, rows, logits.argmax(dim=-1).ne(ids).cpu().double())
    return nats.numpy(), misses.numpy()
