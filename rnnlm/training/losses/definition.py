"""What training makes small. A loss is an argument of the loop; evaluation always uses the full softmax."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.models.elman import ElmanLanguageModel


class Loss(Protocol):
    def __call__(
        self, model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor, generator: torch.Generator
    ) -> Tensor:
        """hidden (b, t, H), target_ids (b, t), pad_id where there is nothing to predict → scalar.

        Mean negative log-likelihood in nats over the predicted tokens. Who draws at random draws from generator,
        which is on the CPU.
        """
        ...


def exact_cross_entropy(
    model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """The full softmax in float32, all logits at once: the definition."""
    predicted, targets = predicted_only(model, hidden, target_ids)
    return functional.cross_entropy(model.logits(predicted), targets)


def predicted_only(model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
    """(n, H) and (n,) of the positions that predict: padding never reaches the costly projection."""
    predicted = target_ids.ne(model.pad_id)
    if bool(predicted.all()):
        return hidden.flatten(0, 1), target_ids.flatten()
    return hidden[predicted], target_ids[predicted]


def summed_nll(model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor) -> float:
    """Sum, not mean, in nats: batches differ in their number of tokens. Added up in float64."""
    predicted, targets = predicted_only(model, hidden, target_ids)
    total = 0.0
    for rows, ids in zip(predicted.split(1024), targets.split(1024), strict=True):  # logits of 1024 rows at once
        losses = functional.cross_entropy(model.logits(rows).float(), ids, reduction="none")
        total += float(losses.detach().to("cpu", torch.float64).sum())
    return total
