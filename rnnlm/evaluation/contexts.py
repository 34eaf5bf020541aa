"""Losses of many rows, faster than one after the other and just as exact: every context is normalised once.

    nll = ln Z(context) - logit(target | context),  Z = sum over the vocabulary of exp(logit)

Nearly all of the time goes into Z, a product with the whole vocabulary, which depends on the context alone. So rows
that begin alike share it (each begins with `<bos>`, many with the same words, some are the same throughout), and it is
summed up a block of the vocabulary at a time: a block of logits fits the processor's cache, and none is kept.

What is left is the product, which a processor may do twice as fast in bfloat16. A logit's error goes into ln Z times
the probability of its class: so the products with frequent classes stay exact, and those with the many rare ones,
which have little of Z together, may be in bfloat16 (`tail`).
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from rnnlm.evaluation.losses import groups
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batching import EVALUATION_WINDOW, by_length, padded
from rnnlm.sequences.cutting import TokenRows, ends
from rnnlm.training.losses.definition import CPU_ROWS

ROWS_AT_ONCE, CLASSES_AT_ONCE = 1_024, 512  # of a block of logits: 2 MiB
EXACT_CLASSES = 2_048  # the most frequent ones, whose products are in float32 whatever the precision of the others
ROUNDED_ROWS = 64  # in bfloat16 rows come in multiples of it: oneDNN keeps a program for each shape that it has met
SMALLEST_SUM = 1e-30  # of a row's exp(logit): below it float32 has lost digits
SHARED_DEPTH = 64  # tokens from a row's beginning up to which others are looked for that begin alike


def nll_of_alike_rows(
    model: ElmanLanguageModel, rows: TokenRows, batch_size: int, tail: torch.dtype = torch.float32
) -> np.ndarray:
    """(predicted tokens,) float32 in the order of the rows, state zero before each: losses.nll_of_rows, but for
    rounding. tail: as in Normalizer.
    """
    first = first_alike(rows)
    is_first = first == np.arange(len(first))
    log_z, logit = np.zeros((2, len(first)), np.float32)
    log_normalizers = Normalizer(model, tail)
    for places, hidden, target_ids in contexts(model, rows, batch_size):
        logit[places] = logits_of(model, hidden, target_ids).cpu().numpy()
        mine = is_first[places]
        log_z[places[mine]] = log_normalizers(hidden[torch.from_numpy(mine)]).cpu().numpy()
    return np.maximum(log_z[first] - logit, 0.0)  # rounding apart it is never below zero


def first_alike(rows: TokenRows) -> np.ndarray:
    """(predicted tokens,) int64: for each the first predicted token whose context is the same, perhaps itself."""
    first = np.arange(rows.predicted_count)
    starts = ends(rows.predicted)[:-1]
    beginning = np.zeros(len(rows), np.int64)  # a number for what a row holds so far
    alike = np.flatnonzero(rows.predicted)  # rows that may still begin as another does
    for depth in range(SHARED_DEPTH):
        if not len(alike):
            break
        keys = beginning[alike] << 32 | rows.token_ids[rows.offsets[alike] + depth]
        _, nth, number, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        places = starts[alike] + depth
        first[places] = places[nth[number]]
        beginning[alike] = number
        alike = alike[(count[number] > 1) & (rows.predicted[alike] > depth + 1)]
    return first


@torch.inference_mode()
def contexts(
    model: ElmanLanguageModel, rows: TokenRows, batch_size: int
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Every predicted token once: its place in the order of the rows, the hidden state (n, H) before it, its id (n,).

    Rows go through sorted by length, long ones window by window.
    """
    device = model.embedding.weight.device
    starts = ends(rows.predicted)[:-1]
    for group in groups(by_length(np.arange(len(rows)), rows.lengths), rows.lengths, batch_size):
        (batch,) = padded(rows.take(group), len(group))
        places = starts[group, None] + np.arange(batch.target_ids.shape[1])
        state = None
        for begin in range(0, places.shape[1], EVALUATION_WINDOW):
            window = slice(begin, begin + EVALUATION_WINDOW)
            target_ids = batch.target_ids[:, window]
            there = target_ids.ne(model.pad_id)
            hidden, state = model.hidden(batch.input_ids[:, window].to(device), state)
            yield places[:, window][there.numpy()], hidden[there.to(device)], target_ids[there].to(device)


@torch.inference_mode()
def logits_of(model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor) -> Tensor:
    """hidden (n, H), target_ids (n,) → (n,): the logit of each target alone."""
    return (hidden * model.head.weight[target_ids]).sum(dim=1) + model.head.bias[target_ids]


class Normalizer:
    """ln of the sum of exp(logit) over the vocabulary less what is never predicted, for many contexts.

    tail: precision of the products with all but the EXACT_CLASSES most frequent classes, which are those with the
    largest bias. Below float32 it is faster, and a context's figure is off by thousandths of a nat at most.
    """

    @torch.inference_mode()
    def __init__(self, model: ElmanLanguageModel, tail: torch.dtype = torch.float32) -> None:
        self.model = model
        weight, bias = model.head.weight, model.head_bias()
        if tail != torch.float32:
            bias, order = bias.sort(descending=True, stable=True)
            weight = weight[order]
        self.blocks = [
            # exp(h w + b) = exp(b) exp(h w): so the biases need no pass over the logits of their own.
            (part if first < EXACT_CLASSES else part.to(tail), bias[first : first + CLASSES_AT_ONCE].exp())
            for first, part in zip(range(0, len(weight), CLASSES_AT_ONCE), weight.split(CLASSES_AT_ONCE), strict=True)
        ]
        # For every block: fresh pages cost time.
        self.logits = weight.new_empty(ROWS_AT_ONCE * CLASSES_AT_ONCE)
        self.rounded = torch.empty_like(self.logits, dtype=tail)

    @torch.inference_mode()
    def __call__(self, hidden: Tensor) -> Tensor:
        """hidden (n, H) → (n,)"""
        sums = torch.cat([hidden.new_zeros(0), *(self.sums_of(part) for part in hidden.split(ROWS_AT_ONCE))])
        beyond = ~(sums.isfinite() & (sums > SMALLEST_SUM))  # what float32 can hold, or nearly so
        log_z = sums.log()
        if beyond.any():
            parts = hidden[beyond].split(CPU_ROWS)
            log_z[beyond] = torch.cat([self.model.logits(part).logsumexp(dim=1) for part in parts])
        return log_z

    def sums_of(self, hidden: Tensor) -> Tensor:
        """hidden (n, H), ROWS_AT_ONCE at most → (n,): the sum of exp(logit); inf or nan where it is beyond float32."""
        sums = hidden.new_zeros(len(hidden))
        hidden = hidden * math.log2(math.e)  # powers of two instead of e: torch has them several times as fast
        rounded = pad(hidden, (0, 0, 0, -len(hidden) % ROUNDED_ROWS)).to(self.rounded.dtype)
        for weight, factors in self.blocks:
            shape = len(hidden), len(weight)
            logits = self.logits[: shape[0] * shape[1]].view(shape)
            if weight.dtype == hidden.dtype:
                torch.mm(hidden, weight.t(), out=logits)
            else:
                out = self.rounded[: len(rounded) * len(weight)].view(len(rounded), len(weight))
                logits.copy_(torch.mm(rounded, weight.t(), out=out)[: len(hidden)])
            sums.addmv_(logits.exp2_(), factors)
        return sums
