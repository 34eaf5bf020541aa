"""How likely a text is after another one: what EleutherAI's harness asks of a model, answered by a recurrent one.

A text is cut as the model's training text was (rnnlm/evaluation/document_losses.py). In `stream` mode it is one running
text, each line feed an `<eos>`. In `sentence` mode each line begins with state zero, so that of a context only its
last line counts. `<bos>` is the context of what has none. There is no longest context: the state is carried from
window to window.

What became `<unk>` is spelt out as in `rnnlm evaluate` (TextTokenizer.spelling_bits): without that, a text would
become likelier the more unknown words it has. White space between the parts of a question is not counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import document_losses, streams
from rnnlm.evaluation.token_losses import groups
from rnnlm.losses.loss import CPU_ROWS
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batches import EVALUATION_WINDOW, Batch, by_length, padded
from rnnlm.sequences.segmentation import TokenRows, join_rows, rows_from_lists, sentences
from rnnlm.sequences.shift import shifted_rows
from rnnlm.tokenizers.text_tokenizer import UNK, TextTokenizer


@dataclass(frozen=True)
class Continuation:
    """The rows that predict a text's tokens after its context. No row where there is no such token."""

    rows: TokenRows
    counts: np.ndarray  # (rows,) int64: so many of the row's last tokens are the continuation's
    spelling_bits: float  # of its words that the vocabulary cannot spell


def text_log_likelihoods(
    model: ElmanLanguageModel, tokenizer: TextTokenizer, cut: SequencesConfig, texts: Sequence[str], batch_size: int
) -> list[float]:
    """Natural logarithm of each text's probability: `rnnlm evaluate`'s bits per byte, times bytes, in nats.

    The last line's `<eos>` is predicted whether or not a line feed ends it.
    """
    found = []
    for first in range(0, len(texts), batch_size):
        losses = document_losses(model, tokenizer, texts[first : first + batch_size], cut, batch_size)
        found += [-loss.total_nats for loss in losses]
    return found


def continuation_of(tokenizer: TextTokenizer, cut: SequencesConfig, context: str, continuation: str) -> Continuation:
    """The continuation's tokens are those from which on the tokens of both together differ from the context's own.

    So a word that the context only begins belongs to the continuation, and no text comes at no cost because its
    first characters join the context's last ones in one token.
    """
    whole, before = open_rows(tokenizer, cut, context + continuation), open_rows(tokenizer, cut, context)
    shared = shared_length(shifted_rows(whole)[1], shifted_rows(before)[1])
    counts = np.clip(np.cumsum(whole.predicted) - shared, 0, whole.predicted)
    rows = np.flatnonzero(counts)
    bits = spelling_bits(tokenizer, context + continuation) - spelling_bits(tokenizer, context)
    return Continuation(whole.take(rows), counts[rows], max(0.0, bits))


def open_rows(tokenizer: TextTokenizer, cut: SequencesConfig, text: str) -> TokenRows:
    """The text's rows; a line that no line feed ends has no `<eos>`, for it may go on."""
    lines = rows_from_lists(tokenizer.encode_lines(text.split("\n")))
    if cut.mode == "stream":
        rows, goes_on = streams(lines, np.array([len(lines)])), True  # the last piece of a split has no line feed
    else:
        rows, goes_on = sentences(lines, cut.context_length), bool(lines.lengths[-1])  # a blank line has no row
    if goes_on:
        offsets = rows.offsets.copy()
        offsets[-1] -= 1
        rows = TokenRows(rows.token_ids[: offsets[-1]], offsets)
    return rows


def shared_length(a: np.ndarray, b: np.ndarray) -> int:
    """How many tokens both begin with."""
    shortest = min(len(a), len(b))
    different = np.flatnonzero(a[:shortest] != b[:shortest])
    return int(different[0]) if len(different) else shortest


def spelling_bits(tokenizer: TextTokenizer, text: str) -> float:
    lines = text.split("\n")
    unknown = [ids.count(UNK) for ids in tokenizer.encode_lines(lines)]
    return sum(tokenizer.spelling_bits(line, count) for line, count in zip(lines, unknown, strict=True) if count)


def score_continuations(
    model: ElmanLanguageModel, asked: Sequence[Continuation], batch_size: int
) -> list[tuple[float, bool]]:
    """(natural logarithm of its probability, whether the model would have written it by itself) for each.

    batch_size changes nothing but rounding.
    """
    rows = join_rows([one.rows for one in asked])
    counts = np.concatenate([np.zeros(0, np.int64), *(one.counts for one in asked)])
    owner = np.repeat(np.arange(len(asked)), np.array([len(one.rows) for one in asked], np.int64))
    nats, misses = np.zeros(len(rows)), np.zeros(len(rows))
    for group in groups(by_length(np.arange(len(rows)), rows.lengths), rows.lengths, batch_size):
        (batch,) = padded(rows.take(group), len(group))
        nats[group], misses[group] = read_ends(model, batch, torch.from_numpy(counts[group]))
    total_nats = np.bincount(owner, nats, len(asked))
    total_misses = np.bincount(owner, misses, len(asked))
    return [
        (-float(total_nats[index]) - one.spelling_bits * math.log(2), not (total_misses[index] or one.spelling_bits))
        for index, one in enumerate(asked)
    ]


@torch.inference_mode()
def read_ends(model: ElmanLanguageModel, batch: Batch, counts: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Of each row's last `counts` (b,) tokens: the summed negative log-likelihood in nats, (b,) float64, and how many
    of them are not the likeliest. Only these go through the head, which is most of the work.
    """
    device = model.embedding.weight.device
    ends = batch.mask.sum(dim=1, keepdim=True)
    places = torch.arange(batch.target_ids.shape[1])
    asked = (places >= ends - counts[:, None]) & (places < ends)
    nats, misses = torch.zeros(2, len(ends), dtype=torch.float64)
    state = None
    windows = (part.split(EVALUATION_WINDOW, dim=1) for part in (batch.input_ids, batch.target_ids, asked))
    for input_ids, target_ids, wanted in zip(*windows, strict=True):
        hidden, state = model.hidden(input_ids.to(device), state)
        parts = (wanted.nonzero()[:, 0], hidden[wanted.to(device)], target_ids[wanted].to(device))
        for rows, vectors, ids in zip(*(part.split(CPU_ROWS) for part in parts), strict=True):
            logits = model.logits(vectors).float()
            losses = functional.cross_entropy(logits, ids, reduction="none")
            nats.index_add_(0, rows, losses.cpu().double())
            misses.index_add_(0, rows, logits.argmax(dim=-1).ne(ids).cpu().double())
    return nats.numpy(), misses.numpy()
