"""The exact cross-entropy in chunks: forward and backward together, without storing all logits (see projection.py)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rnnlm.losses.loss import target_shares
from rnnlm.losses.projection import GradientInForward, Projection, log_normalizers
from rnnlm.losses.softmax_kernel import CrossEntropyInPlace, has_softmax_kernel
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.shift import padding_mask


@dataclass(frozen=True)
class ChunkedCrossEntropy:
    """A Loss equal to loss.exact_cross_entropy, in less time and memory.

    precision: of the products; sums are float32. With bfloat16 the relative error is at most 1e-3 for a mean loss above
    1 nat and 1e-2 for its gradient. It grows for smaller losses, because probabilities are rounded to 1: a loss of 0.01
    is off by a tenth. text_share: of a token's first target, if it has several; see target_shares.
    """

    precision: torch.dtype = torch.float32
    text_share: float = 1.0

    def __call__(
        self,
        model: LanguageModel,
        hidden: Tensor,
        target_ids: Tensor,
        sample: Tensor | None = None,
    ) -> Tensor:
        bias, rows = model.head_bias(), hidden.flatten(0, 1)
        targets = target_ids.reshape(len(rows), -1)
        summed = CrossEntropyInPlace if has_softmax_kernel(rows.device) else SummedCrossEntropy
        loss: Tensor = summed.apply(rows, model.head.weight, bias, targets, self.precision, self.text_share)
        return loss / padding_mask(targets[:, 0]).sum()


class SummedCrossEntropy(GradientInForward):
    """Sum the cross-entropy of all rows and targets without keeping the logits.

    rows: (n, H), weight: (V, H), bias: (V,), targets: (n, k) int64 → a float32 scalar, in nats.
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
        predicted = padding_mask(targets[:, 0])
        projection = Projection(rows, weight, bias, predicted, precision)
        total, shares = torch.zeros((), device=rows.device), target_shares(targets, text_share)
        for chunk, logits in projection.chunks():
            target = targets[chunk]
            probabilities = logits.softmax(dim=1)
            target_logit = (logits.gather(1, target).float() * shares).sum(dim=1)
            nll = log_normalizers(logits, probabilities) - target_logit
            total = total + nll.masked_fill(~predicted[chunk], 0.0).sum()
            # Gradient with respect to the logits: probabilities minus the shares of the targets.
            projection.accumulate(chunk, probabilities.scatter_add_(1, target, -shares.to(precision).expand_as(target)))
        ctx.save_for_backward(*projection.gradients())
        return total
