"""What training makes small. A loss is an argument of the loop; evaluation always uses the full softmax."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from ..models.elman import ElmanLanguageModel

CPU_ROWS, GPU_ROWS = 128, 4_096  # tokens scored at once: a CPU's cache holds their logits, a GPU wants large products


class Loss(Protocol):
    def __call__(self, model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None) -> Tensor:
        """hidden (b, t, H), target_ids (b, t), pad_id where there is nothing to predict → scalar.

        Mean negative log-likelihood in nats over the predicted tokens. sample: classes drawn at random, for a loss
        that wants some (sampled_softmax.py).
        """
        ...


def exact_cross_entropy(
    model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None = None
) -> Tensor:
    """The full softmax, all logits at once: the definition, which the others are held to."""
    logits = model.logits(hidden).flatten(0, 1)
    return functional.cross_entropy(logits, target_ids.flatten(), ignore_index=model.pad_id)


def summed_nll(model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor) -> float:
    """Sum, not mean, in nats: batches differ in their number of tokens. Added up in float64."""
    return float(token_nll(model, hidden, target_ids).cpu().double().sum())


def token_nll(model: ElmanLanguageModel, hidden: Tensor, target_ids: Tensor) -> Tensor:
    """hidden (b, t, H), target_ids (b, t) → (b, t) float32: each token's negative log-likelihood in nats.

    Zero at `<pad>`. For measuring, not for training: no gradient.
    """
    losses = []
    for rows, ids in in_rows(hidden, target_ids):
        logits = model.logits(rows).float()
        losses.append(functional.cross_entropy(logits, ids, ignore_index=model.pad_id, reduction="none").detach())
    return torch.cat(losses).view(target_ids.shape)


def in_rows(hidden: Tensor, target_ids: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """hidden (b, t, H), target_ids (b, t) → (n, H) and (n,), token after token, as many as are scored at once."""
    at_once = CPU_ROWS if hidden.device.type == "cpu" else GPU_ROWS
    return zip(hidden.flatten(0, 1).split(at_once), target_ids.flatten().split(at_once), strict=True)
