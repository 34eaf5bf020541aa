"""The cross-entropy on a GPU, computed by a Triton kernel that replaces the logits by their gradient in place.

The kernel reads each row of logits from the GPU's memory once and writes it once. torch's operations read or write the
rows five times, which takes longer than the matrix products if the vocabulary is large.
"""

from typing import Any

import torch
from torch import Tensor

from rnnlm.losses.loss import shares_of_targets
from rnnlm.losses.projection import GradientInForward, rows_at_once
from rnnlm.models.diagonal_recurrence import has_compiler
from rnnlm.models.full_recurrence import float32_product
from rnnlm.tokenizers.text_tokenizer import PAD

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# The largest number of classes that a program can hold at once. On an H200, reading longer rows twice is faster than
# holding them.
WIDEST_ROW = 8_192
# The number of classes of a long row that are read at once, and the number of warps of a program.
CLASSES_AT_ONCE, WARPS = 2_048, 4


def has_softmax_kernel(device: torch.device) -> bool:
    return device.type == "cuda" and triton is not None and has_compiler()


class CrossEntropyInPlace(GradientInForward):
    """The cross-entropy in nats, summed over all rows and targets, as a float32 scalar.

    The logits are overwritten by their gradient. The arguments are rows (n, H), weight (V, H), bias (V,) and targets
    (n, k) int64. Logits are computed in `precision`, sums in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        precision: torch.dtype,
        text_share: float,
    ) -> Tensor:
        inputs, narrow_weight, narrow_bias = rows.to(precision), weight.to(precision), bias.to(precision)
        nll, rows_grad = torch.empty(len(rows), device=rows.device), torch.empty_like(rows)
        sums: list[Tensor] = []  # The sums of the gradients of weight and bias.
        size = rows_at_once(weight)
        for chunk in (slice(first, first + size) for first in range(0, len(rows), size)):
            logits = torch.addmm(narrow_bias, inputs[chunk], narrow_weight.t())
            subtract_targets(logits, targets[chunk], nll[chunk], text_share)
            rows_grad[chunk] = logits @ narrow_weight
            products = [float32_product(logits.t(), inputs[chunk]), logits.sum(dim=0, dtype=torch.float32)]
            sums = [one.add_(other) for one, other in zip(sums, products, strict=True)] if sums else products
        ctx.save_for_backward(rows_grad, *sums)
        return nll.sum()


def subtract_targets(logits: Tensor, targets: Tensor, nll: Tensor, text_share: float) -> None:
    """Replace the logits, (n, V), by their gradient, and write the loss of each row to `nll`, (n,).

    The gradient is the softmax minus the weights of the targets, (n, k) int64; see target_shares. It is zero in rows
    whose first target is `<pad>`.
    """
    classes, count = logits.shape[1], targets.shape[1]
    shares = shares_of_targets(count, text_share)
    arguments = (logits, targets.contiguous(), nll, *shares, classes, logits.stride(0), PAD, count)
    if classes <= WIDEST_ROW:
        block = triton.next_power_of_2(classes)
        row_kernel[(len(logits),)](*arguments, block, num_warps=max(4, block // 1024))
    else:
        long_row_kernel[(len(logits),)](*arguments, CLASSES_AT_ONCE, num_warps=WARPS)


# Triton 3.6 compiles annotations and fails for names that it does not know, so the kernels have none.
if triton is not None:

    @triton.jit
    def shared_target_logit(start, own_targets, first, first_share, other_share, count: tl.constexpr):
        """Return the sum of the targets' logits, each multiplied by the target's weight.

        `first` is the first target.
        """
        total = first_share * tl.load(start + first).to(tl.float32) if first_share > 0.0 else 0.0
        for place in tl.static_range(1, count):
            other_logit = tl.load(start + tl.load(own_targets + place)).to(tl.float32)
            total += other_share * other_logit if other_share > 0.0 else 0.0
        return total

    @triton.jit
    def without_shares(probabilities, column, own_targets, first, first_share, other_share, count: tl.constexpr):
        """Return the gradient of the loss for the classes in `column`: probability minus weight as a target.

        The weight is 0 for all classes that are not targets.
        """
        probabilities -= tl.where(column == first, first_share, 0.0)
        for place in tl.static_range(1, count):
            probabilities -= tl.where(column == tl.load(own_targets + place), other_share, 0.0)
        return probabilities

    @triton.jit
    def row_kernel(
        logits,
        targets,
        nll,
        first_share,
        other_share,
        classes,
        stride,
        pad: tl.constexpr,
        count: tl.constexpr,
        block: tl.constexpr,
    ):
        """Compute the loss and the gradient of one row of logits.

        Only this row is kept in registers, because with a second array they would spill into memory.
        """
        start = logits + tl.program_id(0).to(tl.int64) * stride
        own_targets = targets + tl.program_id(0).to(tl.int64) * count
        first = tl.load(own_targets)
        target_logit = shared_target_logit(start, own_targets, first, first_share, other_share, count)
        column = tl.arange(0, block)
        x = tl.load(start + column, column < classes, float("-inf")).to(tl.float32)
        most = tl.max(x, 0)
        exponentials = tl.exp(x - most)
        total = tl.sum(exponentials, 0)
        predicted = first != pad
        tl.store(nll + tl.program_id(0), tl.where(predicted, tl.log(total) + most - target_logit, 0.0))
        gradient = exponentials * (1.0 / total)
        gradient = without_shares(gradient, column, own_targets, first, first_share, other_share, count)
        gradient = tl.where(predicted, gradient, 0.0)
        tl.store(start + column, gradient.to(logits.dtype.element_ty), column < classes)

    @triton.jit
    def long_row_kernel(
        logits,
        targets,
        nll,
        first_share,
        other_share,
        classes,
        stride,
        pad: tl.constexpr,
        count: tl.constexpr,
        block: tl.constexpr,
    ):
        """Compute the loss and the gradient of one row that is too long for the registers.

        The row is read once for its maximum and sum, and again, from the GPU's cache, for the gradient.
        """
        start = logits + tl.program_id(0).to(tl.int64) * stride
        own_targets = targets + tl.program_id(0).to(tl.int64) * count
        first = tl.load(own_targets)
        target_logit = shared_target_logit(start, own_targets, first, first_share, other_share, count)
        most, total = -3.0e38, 0.0
        for begin in range(0, classes, block):
            column = begin + tl.arange(0, block)
            x = tl.load(start + column, column < classes, float("-inf")).to(tl.float32)
            now = tl.maximum(most, tl.max(x, 0))
            total = total * tl.exp(most - now) + tl.sum(tl.exp(x - now), 0)
            most = now
        predicted = first != pad
        tl.store(nll + tl.program_id(0), tl.where(predicted, tl.log(total) + most - target_logit, 0.0))
        for begin in range(0, classes, block):
            column = begin + tl.arange(0, block)
            x = tl.load(start + column, column < classes, float("-inf")).to(tl.float32)
            gradient = tl.exp(x - most) * (1.0 / total)
            gradient = without_shares(gradient, column, own_targets, first, first_share, other_share, count)
            gradient = tl.where(predicted, gradient, 0.0)
            tl.store(start + column, gradient.to(logits.dtype.element_ty), column < classes)
