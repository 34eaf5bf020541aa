"""The projection of hidden rows onto classes, a few rows at a time, and the gradients of what went through it.

A step with a large vocabulary is the projection: (n, H) @ (H, V), n tokens against V classes, and the logits are
by far its largest array. Here they exist for a chunk of tokens at a time. As the gradient of a cross-entropy needs
nothing but the probabilities, it is taken while they are there.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

CPU_CHUNK_LOGITS = 1 << 23  # at once: larger products are faster, until a CPU's cache no longer holds the logits
GPU_CHUNK_LOGITS = 1 << 28  # a GPU wants larger ones


class Projection:
    """rows (n, H), weight (V, H), bias (V,), predicted (n,) bool: a row that predicts nothing adds to no gradient.

    precision: of the products, whose sums are float32.
    """

    def __init__(self, rows: Tensor, weight: Tensor, bias: Tensor, predicted: Tensor, precision: torch.dtype) -> None:
        self.predicted = predicted
        self.counted = predicted.to(precision)
        self.rows = torch.where(predicted[:, None], rows, 0.0).to(precision)
        self.weight, self.bias = weight.to(precision), bias.to(precision)
        self.rows_grad, self.weight_grad, self.bias_grad = map(torch.zeros_like, (rows, weight, bias))

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Which rows, and their logits (chunk, V)."""
        size = rows_at_once(self.weight)
        for chunk in (slice(first, first + size) for first in range(0, len(self.rows), size)):
            yield chunk, torch.addmm(self.bias, self.rows[chunk], self.weight.t())

    def learn(self, chunk: slice, logits_grad: Tensor) -> None:
        """logits_grad (chunk, V): of the loss with respect to these rows' logits."""
        self.rows_grad[chunk] = logits_grad @ self.weight
        self.weight_grad += logits_grad.t() @ self.rows[chunk]
        self.bias_grad += self.counted[chunk] @ logits_grad

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the loss with respect to rows, weight and bias, once all chunks are learnt."""
        return self.rows_grad.masked_fill_(~self.predicted[:, None], 0.0), self.weight_grad, self.bias_grad


class LearntInForward(torch.autograd.Function):
    """A sum whose gradients are there once `forward` is done, in ctx.saved_tensors; its last three inputs have none."""

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        # In place: they are used once.
        return *(gradient.mul_(output_grads[0]) for gradient in ctx.saved_tensors), None, None, None


def log_normalizers(logits: Tensor, probabilities: Tensor) -> Tensor:
    """(n,) float32: log Σ exp(logit) of each row, of (n, V) logits and their softmax.

    From the largest of each row: the probability of any other may have underflowed to 0, whose logarithm is infinite.
    """
    return logits.amax(dim=1).float() - probabilities.amax(dim=1).float().log()


def rows_at_once(weight: Tensor) -> int:
    logits = CPU_CHUNK_LOGITS if weight.device.type == "cpu" else GPU_CHUNK_LOGITS
    return max(1, logits // len(weight))
