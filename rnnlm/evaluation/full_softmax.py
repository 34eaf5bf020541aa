"""Fast and exact token losses under the full softmax, ln Z(context) - logit(target | context).

Nearly all of the time is spent on ln Z, which needs a product with the whole vocabulary. The sum is computed over
blocks of the vocabulary. A block of logits fits into the CPU's cache, so this takes half the time of computing all
logits at once.

Some CPUs multiply bfloat16 numbers twice as fast as float32 numbers. The error of ln Z is the sum of p(class) times the
error of the logit. Hence products with frequent classes are float32, and products with the many rare classes may be
bfloat16 (`tail_dtype`).

The module is copied into every registered model.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..losses.loss import CPU_ROWS, GPU_ROWS
from ..models.language_model import LanguageModel

BLOCK_ROWS, BLOCK_CLASSES = 1_024, 512  # The numbers of rows and classes of a block of logits, which needs 2 MiB.
EXACT_CLASSES = 2_048  # The number of most frequent classes, whose products are always float32.
# The number of rows of bfloat16 products is rounded up to a multiple of this number, because oneDNN compiles a program
# for each shape.
ROW_MULTIPLE = 64
SMALLEST_SUM = 1e-30  # The sum of exp(logit) below which float32 has lost digits of the sum.


@torch.inference_mode()
def target_logits(model: LanguageModel, hidden: Tensor, target_ids: Tensor) -> Tensor:
    """Return the logit of each target, (n,), for `hidden` (n, H) and `target_ids` (n,)."""
    return (hidden * model.head.weight[target_ids]).sum(dim=1) + model.head.bias[target_ids]


class LogNormalizer:
    """A function that computes ln Z, the logarithm of the sum of exp(logit) over the predictable vocabulary.

    It must be created again after the weights have changed. `tail_dtype` is the precision of the products with all
    classes except the EXACT_CLASSES most frequent ones, which are those with the largest bias. A lower precision than
    float32 is faster, and changes ln Z by at most thousandths of a nat.
    """

    @torch.inference_mode()
    def __init__(self, model: LanguageModel, tail_dtype: torch.dtype = torch.float32) -> None:
        self.model = model
        weight, bias = model.head.weight, model.head_bias()
        if tail_dtype != torch.float32:
            bias, order = bias.sort(descending=True, stable=True)
            weight = weight[order]
        self.blocks = [
            # The biases are applied as factors, exp(h w + b) = exp(b) exp(h w), so that adding them needs no pass over
            # the logits.
            (part if first < EXACT_CLASSES else part.to(tail_dtype), bias[first : first + BLOCK_CLASSES].exp())
            for first, part in zip(range(0, len(weight), BLOCK_CLASSES), weight.split(BLOCK_CLASSES), strict=True)
        ]
        # The buffer for all blocks of logits, because allocating new memory takes time.
        self.logits = weight.new_empty(BLOCK_ROWS * BLOCK_CLASSES)
        self.tail_logits = torch.empty_like(self.logits, dtype=tail_dtype)

    @torch.inference_mode()
    def __call__(self, hidden: Tensor) -> Tensor:
        """Return the logarithm of the normalizer of each row, (n,), for `hidden` (n, H)."""
        if hidden.device.type != "cpu":  # A GPU computes all logits at once, which is faster than block by block.
            return self.of_all_logits(hidden, GPU_ROWS)
        sums = torch.cat([hidden.new_zeros(0), *(self.sums(part) for part in hidden.split(BLOCK_ROWS))])
        # The rows whose sum is outside the range of float32 or close to its limits.
        out_of_range = ~(sums.isfinite() & (sums > SMALLEST_SUM))
        log_z = sums.log()
        if out_of_range.any():
            log_z[out_of_range] = self.of_all_logits(hidden[out_of_range], CPU_ROWS)
        return log_z

    def of_all_logits(self, hidden: Tensor, rows: int) -> Tensor:
        """Return ln Z of each row, (n,), computed from all logits of `rows` contexts at a time."""
        parts = [self.model.logits(part).float().logsumexp(dim=1) for part in hidden.split(rows)]
        return torch.cat([hidden.new_zeros(0), *parts])

    @torch.inference_mode()
    def token_nll(self, hidden: Tensor, target_ids: Tensor) -> Tensor:
        """Return the negative log-likelihoods in nats, (n,) float32, without a gradient.

        `hidden` has shape (n, H) and `target_ids` has shape (n,).
        """
        nll = self(hidden) - target_logits(self.model, hidden, target_ids)
        return nll.clamp_(min=0.0)  # The loss can be negative only by rounding.

    def sums(self, hidden: Tensor) -> Tensor:
        """Return the sum of exp(logit) of each row, (n,). A sum beyond the range of float32 is inf or nan.

        `hidden` must have at most BLOCK_ROWS rows.
        """
        sums = hidden.new_zeros(len(hidden))
        # exp is computed as a power of 2, because torch computes 2^x several times as fast as e^x.
        hidden = hidden * math.log2(math.e)
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
