"""The exact loss without its logits: a few rows at a time, forward and backward in one go.

A step with a large vocabulary is the projection: (n, H) @ (H, V), n tokens against V classes, and the logits are
by far its largest array. Here they exist for a chunk of tokens at a time. As the gradient of a cross-entropy needs
nothing but the probabilities, it is taken while they are there; backward only hands it on.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rnnlm.models.elman import ElmanLanguageModel

CPU_CHUNK_ROWS = 256  # tokens whose logits stay in a CPU's cache
GPU_CHUNK_LOGITS = 1 << 28  # a GPU wants large products


@dataclass(frozen=True)
class ChunkedCrossEntropy:
    """A Loss: definition.exact_cross_entropy in less time and memory.

    precision: of the products, whose sums are float32. With bfloat16 the loss is the definition's within 1e-3 and
    its gradient within 1e-2, relative.
    """

    precision: torch.dtype = torch.float32

    def __call__(
        self,
        model: ElmanLanguageModel,
        hidden: Tensor,
        target_ids: Tensor,
        sample: Tensor | None = None,
    ) -> Tensor:
        bias = model.head.bias.masked_fill(model.never_predicted, float("-inf"))
        targets = target_ids.flatten()
        predicted = targets.ne(model.pad_id)
        loss: Tensor = SummedCrossEntropy.apply(
            hidden.flatten(0, 1), model.head.weight, bias, targets, predicted, self.precision
        )
        return loss / predicted.sum()


class SummedCrossEntropy(torch.autograd.Function):
    """rows (n, H), weight (V, H), bias (V,), targets (n,) int64, predicted (n,) bool → a float32 scalar, in nats."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, predicted: Tensor, precision: torch.dtype
    ) -> Tensor:
        rows_grad, weight_grad, bias_grad = torch.empty_like(rows), torch.zeros_like(weight), torch.zeros_like(bias)
        total = torch.zeros((), device=rows.device)
        # A row that predicts nothing is zero, and so is what it adds to the gradient of the weight.
        rows = torch.where(predicted[:, None], rows, 0.0).to(precision)
        weight, bias, counted = weight.to(precision), bias.to(precision), predicted.to(precision)
        size = rows_at_once(weight)
        for chunk in (slice(first, first + size) for first in range(0, len(rows), size)):
            picked = targets[chunk, None]
            probabilities = torch.addmm(bias, rows[chunk], weight.t()).softmax(dim=1)  # (chunk, V)
            picked_nll = -probabilities.gather(1, picked).float().log()[:, 0]
            total += picked_nll.masked_fill(~predicted[chunk], 0.0).sum()
            # Of the loss with respect to the logits: the probabilities less the one-hot target.
            logits_grad = probabilities.scatter_add_(1, picked, torch.full_like(picked, -1, dtype=precision))
            rows_grad[chunk] = logits_grad @ weight
            weight_grad += logits_grad.t() @ rows[chunk]
            bias_grad += counted[chunk] @ logits_grad
        rows_grad.masked_fill_(~predicted[:, None], 0.0)
        ctx.save_for_backward(rows_grad, weight_grad, bias_grad)
        return total

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        # In place: they are used once.
        return *(gradient.mul_(output_grads[0]) for gradient in ctx.saved_tensors), None, None, None


def rows_at_once(weight: Tensor) -> int:
    return CPU_CHUNK_ROWS if weight.device.type == "cpu" else max(CPU_CHUNK_ROWS, GPU_CHUNK_LOGITS // len(weight))
