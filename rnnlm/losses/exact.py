"""The exact cross-entropy, computed in chunks of tokens. The gradients are computed in the forward pass.

Hence the logits of all tokens need not be stored.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rnnlm.losses.loss import target_shares
from rnnlm.losses.projection import GradientInForward, Projection, add_to_classes, log_normalizers
from rnnlm.losses.softmax_kernel import CrossEntropyInPlace, has_softmax_kernel
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.shift import padding_mask


@dataclass(frozen=True)
class ChunkedCrossEntropy:
    """A Loss that equals loss.exact_cross_entropy but needs less time and memory.

    Sums are always float32. If products are computed in bfloat16, the relative error is at most 1e-3 for a mean loss
    above 1 nat, and 1e-2 for its gradient. The error is larger for smaller losses, because probabilities are rounded to
    1: a loss of 0.01 is wrong by a tenth.

    Args:
        precision: The precision of matrix products.
        text_share: The weight of a token's first target, if it has several; see target_shares.
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
    """The cross-entropy in nats, summed over all rows and targets without storing the logits, as a float32 scalar.

    Its arguments are rows (n, H), weight (V, H), bias (V,) and targets (n, k) int64.
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
            nll = log_normalizers(logits, probabilities, target[:, 0], predicted[chunk]) - target_logit
            total = total + nll.masked_fill(~predicted[chunk], 0.0).sum()
            # The gradient with respect to the logits is the probabilities minus the weights of the targets.
            add_to_classes(probabilities, target, -shares.to(precision))
            projection.accumulate(chunk, probabilities)
            del logits, probabilities  # The next chunk uses their memory again.
        ctx.save_for_backward(*projection.gradients())
        return total
