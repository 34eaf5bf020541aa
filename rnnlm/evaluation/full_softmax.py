"""The loss of tokens under the full softmax, exact and fast: ln Z(context) - logit(target | context).

Nearly all of the time goes into ln Z, a product with the whole vocabulary. It is summed up a block of the vocabulary
at a time: a block of logits fits the processor's cache, and none is kept. That is twice as fast as making all logits.

A processor may do the product twice as fast in bfloat16. A logit's error enters ln Z times the probability of its
class. So the products with frequent classes stay exact, and those with the many rare ones, which have little of Z
together, may be in bfloat16 (`tail`).
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from rnnlm.losses.loss import CPU_ROWS, token_nll
from rnnlm.models.elman import ElmanLanguageModel

ROWS_AT_ONCE, CLASSES_AT_ONCE = 1_024, 512  # of a block of logits: 2 MiB
EXACT_CLASSES = 2_048  # the most frequent ones, whose products are in float32 whatever the precision of the others
ROUNDED_ROWS = 64  # in bfloat16 rows come in multiples of it: oneDNN keeps a program for each shape that it has met
SMALLEST_SUM = 1e-30  # of a row's exp(logit): below it float32 has lost digits


class TokenLoss:
    """hidden (n, H) and target_ids (n,) → (n,) float32: negative log-likelihoods in nats.

    For measuring, not for training: no gradient. Make a new one when the weights have changed.
    """

    def __init__(self, model: ElmanLanguageModel) -> None:
        self.model = model
        on_cpu = model.head.weight.device.type == "cpu"  # a GPU prefers all logits at once
        self.log_normalizers = Normalizer(model) if on_cpu else None

    @torch.inference_mode()
    def __call__(self, hidden: Tensor, target_ids: Tensor) -> Tensor:
        if self.log_normalizers is None:
            return token_nll(self.model, hidden[None], target_ids[None])[0]
        nll = self.log_normalizers(hidden) - logits_of(self.model, hidden, target_ids)
        return nll.clamp_(min=0.0)  # only rounding makes it negative


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
