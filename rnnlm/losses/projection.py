"""The projection of hidden rows onto the classes in chunks, which also accumulates gradients.

With a large vocabulary, most of a step's time is spent on the projection (n, H) @ (H, V) of n tokens onto V classes,
and the logits are by far the largest array. Here only the logits of one chunk of tokens exist at a time. The gradient
of a cross-entropy depends only on the probabilities, so it is computed in the same pass.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# The number of logits in a chunk. On a CPU, larger products are faster only as long as their logits fit into the cache.
CPU_CHUNK_LOGITS = 1 << 23
GPU_CHUNK_LOGITS = 1 << 28
# The loss is not computed from probabilities below this limit, because their rounding errors are too large.
SMALLEST_PROBABILITY = 1e-30


class Projection:
    """Chunks of logits, and the sums of the gradients that a loss returns for them.

    Args:
        rows: The hidden rows, (n, H).
        weight: The matrix of the head, (V, H).
        bias: The bias of the head, (V,).
        predicted: A mask, (n,) bool. Rows where it is false do not contribute to any gradient.
        precision: The precision of matrix products; sums are float32.
    """

    def __init__(self, rows: Tensor, weight: Tensor, bias: Tensor, predicted: Tensor, precision: torch.dtype) -> None:
        self.predicted = predicted
        self.counted = predicted.to(precision)
        self.rows = torch.where(predicted[:, None], rows, 0.0).to(precision)
        self.weight, self.bias = weight.to(precision), bias.to(precision)
        self.rows_grad, self.weight_grad, self.bias_grad = map(torch.zeros_like, (rows, weight, bias))

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield slices of the rows and the logits of these rows, (chunk, V)."""
        size = rows_at_once(self.weight)
        for chunk in (slice(first, first + size) for first in range(0, len(self.rows), size)):
            yield chunk, torch.addmm(self.bias, self.rows[chunk], self.weight.t())

    def accumulate(self, chunk: slice, logits_grad: Tensor) -> None:
        """Add the gradients of a chunk of rows.

        `logits_grad`, (chunk, V), is the gradient of the loss with respect to the logits of these rows.
        """
        self.rows_grad[chunk] = logits_grad @ self.weight
        self.weight_grad += logits_grad.t() @ self.rows[chunk]
        self.bias_grad += self.counted[chunk] @ logits_grad

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients with respect to rows, weight and bias. All chunks must have been processed."""
        return self.rows_grad.masked_fill_(~self.predicted[:, None], 0.0), self.weight_grad, self.bias_grad


class GradientInForward(torch.autograd.Function):
    """A base class for a sum whose `forward` already computes the gradients and saves them in ctx.saved_tensors.

    Its last three inputs have no gradient. `forward` must not add to its result in place, because after compilation
    with torch 2.11 the sum would have no gradient.
    """

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        # The saved gradients are changed in place, because they are used only once.
        return *(gradient.mul_(output_grads[0]) for gradient in ctx.saved_tensors), None, None, None


def log_normalizers(logits: Tensor, probabilities: Tensor, column: Tensor, predicted: Tensor) -> Tensor:
    """Return log Σ exp(logit) of each row, (n,) float32, given the logits (n, V) and their softmax.

    Rows where the mask `predicted`, (n,), is false may have any result. For each other row, `column`, (n,) int64, is
    the index of a class with a finite logit. On a CPU the result is computed from the logit and probability of this
    class, so that the other classes need not be read. If this probability has underflowed, and on a GPU, which would
    have to wait for this check, the result is computed from the largest logit.
    """
    if logits.device.type != "cpu":
        return normalizers_of_largest(logits, probabilities)
    rows = torch.arange(len(logits))
    probability = probabilities[rows, column].float()
    log_z = logits[rows, column].float() - probability.log()
    if len(small := (predicted & (probability < SMALLEST_PROBABILITY)).nonzero()[:, 0]):
        log_z[small] = normalizers_of_largest(logits[small], probabilities[small])
    return log_z


def normalizers_of_largest(logits: Tensor, probabilities: Tensor) -> Tensor:
    return logits.amax(dim=1).float() - probabilities.amax(dim=1).float().log()


def add_to_classes(values: Tensor, columns: Tensor, added: Tensor) -> None:
    """Add `added`, (k,), to the elements of `values`, (n, V), at the `columns`, (n, k) int64, of each row.

    Indexing has the same result as scatter_add_ for a single column, and unlike scatter_add_ does not read all of
    `values` on a CPU.
    """
    if columns.shape[1] > 1:
        values.scatter_add_(1, columns, added.expand_as(columns))
    else:
        values[torch.arange(len(values), device=values.device), columns[:, 0]] += added


def rows_at_once(weight: Tensor) -> int:
    logits = CPU_CHUNK_LOGITS if weight.device.type == "cpu" else GPU_CHUNK_LOGITS
    return max(1, logits // len(weight))
