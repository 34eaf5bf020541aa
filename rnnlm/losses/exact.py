"""The exact loss without its logits: forward and backward in one go, a few rows at a time (projection.py)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rnnlm.losses.projection import LearntInForward, Projection, log_normalizers
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.shift import padding_mask


@dataclass(frozen=True)
class ChunkedCrossEntropy:
    """A Loss: definition.exact_cross_entropy in less time and memory.

    precision: of the products, whose sums are float32. With bfloat16 a mean loss of a nat or more is the definition's
    within 1e-3 and its gradient within 1e-2, relative. Far below, where nearly every probability is rounded to 1, it
    is not: a loss of 0.01 is off by a tenth.
    """

    precision: torch.dtype = torch.float32

    def __call__(
        self,
        model: ElmanLanguageModel,
        hidden: Tensor,
        target_ids: Tensor,
        sample: Tensor | None = None,
    ) -> Tensor:
        bias = model.head_bias()
        targets = target_ids.flatten()
        predicted = padding_mask(targets)
        loss: Tensor = SummedCrossEntropy.apply(
            hidden.flatten(0, 1), model.head.weight, bias, targets, predicted, self.precision
        )
        return loss / predicted.sum()


class SummedCrossEntropy(LearntInForward):
    """rows (n, H), weight (V, H), bias (V,), targets (n,) int64, predicted (n,) bool → a float32 scalar, in nats."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, predicted: Tensor, precision: torch.dtype
    ) -> Tensor:
        projection = Projection(rows, weight, bias, predicted, precision)
        total = torch.zeros((), device=rows.device)
        for chunk, logits in projection.chunks():
            picked = targets[chunk, None]
            probabilities = logits.softmax(dim=1)
            picked_nll = log_normalizers(logits, probabilities) - logits.gather(1, picked).float()[:, 0]
            total += picked_nll.masked_fill(~predicted[chunk], 0.0).sum()
            # The probabilities less the one-hot target: the loss's gradient with respect to the logits.
            projection.learn(chunk, probabilities.scatter_add_(1, picked, torch.full_like(picked, -1, dtype=precision)))
        ctx.save_for_backward(*projection.gradients())
        return total
