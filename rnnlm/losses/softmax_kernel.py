"""The cross-entropy on a GPU: a kernel of Triton turns logits into their gradient in place.

It reads each row of logits from the GPU's memory once and writes it once. torch's operations pass over them five times,
and at a large vocabulary that takes longer than the products.
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

WIDEST_ROW = 8_192  # classes that a program holds at once; beyond, it is faster to read a row twice (H200)
CLASSES_AT_ONCE, WARPS = 2_048, 4  # of such a row


def has_softmax_kernel(device: torch.device) -> bool:
    return device.type == "cuda" and triton is not None and has_compiler()


class CrossEntropyInPlace(GradientInForward):
    """Sum the cross-entropy of all rows and targets, writing the gradient over the logits.

    rows: (n, H), weight: (V, H), bias: (V,), targets: (n, k) int64 → a float32 scalar, in nats.

    Logits are in `precision`, sums in float32.
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
        sums: list[Tensor] = []  # gradients of weight and bias
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
    """Replace logits, (n, V), by their gradient, the softmax minus the targets' shares. nll: (n,), written.

    targets: (n, k) int64, with shares as in target_shares. A row whose first target is `<pad>` becomes zero.
    """
    classes, count = logits.shape[1], targets.shape[1]
    shares = shares_of_targets(count, text_share)
    arguments = (logits, targets.contiguous(), nll, *shares, classes, logits.stride(0), PAD, count)
    if classes <= WIDEST_ROW:
        block = triton.next_power_of_2(classes)
        row_kernel[(len(logits),)](*arguments, block, num_warps=max(4, block // 1024))
    else:
        long_row_kernel[(len(logits),)](*arguments, CLASSES_AT_ONCE, num_warps=WARPS)


# Triton 3.6 compiles annotations, too, and knows only its own names in them.
if triton is not None:

    @triton.jit
    def shared_target_logit(start, own_targets, first, first_share, other_share, count: tl.constexpr):
        """Return the sum of the targets' logits, each multiplied by its share. first: the first target."""
        total = first_share * tl.load(start + first).to(tl.float32) if first_share > 0.0 else 0.0
        for place in tl.static_range(1, count):
            other_logit = tl.load(start + tl.load(own_targets + place)).to(tl.float32)
            total += other_share * other_logit if other_share > 0.0 else 0.0
        return total

    @triton.jit
    def without_shares(probabilities, column, own_targets, first, first_share, other_share, count: tl.constexpr):
        """Return the loss's gradient for the classes in `column`.

        Their probabilities minus the shares of those that are targets.
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
        """Compute a row. No array but the row itself lives long: with two, registers would spill into memory."""
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
        """Read the row once for its maximum and its sum, and once more to write: then it comes from the GPU's cache."""
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
