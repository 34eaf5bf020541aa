"""Exact, fast token losses under the full softmax: ln Z(context) - logit(target | context).

Nearly all of the time goes into ln Z, a product with the whole vocabulary. It is summed over blocks of the vocabulary:
a block of logits fits the processor's cache and is never stored. That is twice as fast as computing all logits.

Some processors multiply bfloat16 twice as fast. A logit's error enters ln Z times the probability of its class. So
products with frequent classes stay in float32, and those with the many rare classes, which together have little of Z,
may be in bfloat16 (`tail_dtype`).

This module travels with every registered model.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..losses.loss import CPU_ROWS, GPU_ROWS
from ..models.language_model import LanguageModel

BLOCK_ROWS, BLOCK_CLASSES = 1_024, 512  # of a block of logits: 2 MiB
EXACT_CLASSES = 2_048  # the most frequent classes, always in float32
ROW_MULTIPLE = 64  # bfloat16 products have a multiple of it: oneDNN keeps a program for each shape
SMALLEST_SUM = 1e-30  # of a row's exp(logit): below it float32 has lost digits


@torch.inference_mode()
def target_logits(model: LanguageModel, hidden: Tensor, target_ids: Tensor) -> Tensor:
    """Return the logit of each target, (n,). hidden: (n, H), target_ids: (n,)."""
    return (hidden * model.head.weight[target_ids]).sum(dim=1) + model.head.bias[target_ids]


class LogNormalizer:
    """ln Z: the logarithm of the sum of exp(logit) over the predictable vocabulary, for many contexts.

    Make a new one when the weights have changed.

    tail_dtype: precision of the products with all but the EXACT_CLASSES classes of largest bias, the most frequent
    ones. Below float32 it is faster, and ln Z is off by at most thousandths of a nat.
    """

    @torch.inference_mode()
    def __init__(self, model: LanguageModel, tail_dtype: torch.dtype = torch.float32) -> None:
        self.model = model
        weight, bias = model.head.weight, model.head_bias()
        if tail_dtype != torch.float32:
            bias, order = bias.sort(descending=True, stable=True)
            weight = weight[order]
        self.blocks = [
            # exp(h w + b) = exp(b) exp(h w): the biases need no pass over the logits.
            (part if first < EXACT_CLASSES else part.to(tail_dtype), bias[first : first + BLOCK_CLASSES].exp())
            for first, part in zip(range(0, len(weight), BLOCK_CLASSES), weight.split(BLOCK_CLASSES), strict=True)
        ]
        # Buffers shared by all blocks: fresh pages cost time.
        self.logits = weight.new_empty(BLOCK_ROWS * BLOCK_CLASSES)
        self.tail_logits = torch.empty_like(self.logits, dtype=tail_dtype)

    @torch.inference_mode()
    def __call__(self, hidden: Tensor) -> Tensor:
        """Return the logarithm of each row's normalizer, (n,). hidden: (n, H)."""
        if hidden.device.type != "cpu":  # a GPU prefers all logits at once
            return self.of_all_logits(hidden, GPU_ROWS)
        sums = torch.cat([hidden.new_zeros(0), *(self.sums(part) for part in hidden.split(BLOCK_ROWS))])
        out_of_range = ~(sums.isfinite() & (sums > SMALLEST_SUM))  # of float32, or nearly
        log_z = sums.log()
        if out_of_range.any():
            log_z[out_of_range] = self.of_all_logits(hidden[out_of_range], CPU_ROWS)
        return log_z

    def of_all_logits(self, hidden: Tensor, rows: int) -> Tensor:
        """Return the same, (n,), from all logits of `rows` contexts at a time. hidden: (n, H)."""
        parts = [self.model.logits(part).float().logsumexp(dim=1) for part in hidden.split(rows)]
        return torch.cat([hidden.new_zeros(0), *parts])

    @torch.inference_mode()
    def token_nll(self, hidden: Tensor, target_ids: Tensor) -> Tensor:
        """Return negative log-likelihoods in nats, (n,) float32, without gradient. hidden: (n, H), target_ids: (n,)."""
        nll = self(hidden) - target_logits(self.model, hidden, target_ids)
        return nll.clamp_(min=0.0)  # only rounding makes it negative

    def sums(self, hidden: Tensor) -> Tensor:
        """Return the sum of exp(logit) of each row, (n,), inf or nan beyond float32.

        hidden: at most BLOCK_ROWS rows of H.
        """
        sums = hidden.new_zeros(len(hidden))
        hidden = hidden * math.log2(math.e)  # torch computes 2^x several times as fast as e^x
        rounded = pad(hidden, (0, 0, 0, -len(hidden) % ROW_MULTIPLE)).to(self.tail_logits.dtype)
        for weight, factors in self.blocks:
            shape = len(hidden), len(weight)
            logits = self.logits[: shape[0] * shape[1]].view(shape)
            if weight.dtype == hidden.dtype:
                torch.mm(hidden, weight.t(), out=logits)
            else:
                out = self.tail_logits[: len(rounded) * len(weight)].view(len(rounded), len(weight))
                logits.copy_(torch.mm(rounded, weight.t(), out=out)[: len(hidden)])
            sums.addmv_(logits.exp2_(), factors)
        return sums
