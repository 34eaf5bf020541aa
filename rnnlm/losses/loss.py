"""The interface of training losses, and the exact loss with the full softmax, which evaluation always uses."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from ..models.language_model import LanguageModel

# The number of tokens whose logits are computed together. On a CPU the logits must fit into the cache; a GPU needs
# larger products.
CPU_ROWS, GPU_ROWS = 128, 4_096


class Loss(Protocol):
    def __call__(self, model: LanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None) -> Tensor:
        """Return the mean negative log-likelihood of the predicted tokens in nats, a scalar.

        Args:
            model: The model whose head computes the logits.
            hidden: The input of the head, (b, t, H).
            target_ids: The target tokens, (b, t), with pad_id where nothing is predicted. With shape (b, t, k), a token
                has several targets, which are weighted by `target_shares`.
            sample: The sampled classes of a sampled loss, (classes,).
        """
        ...


def target_shares(targets: Tensor, text_share: float) -> Tensor:
    """Return the weights of a token's targets in the loss, (k,) float32, which sum to 1.

    The first target is the token of the text. Its weight is text_share; the other targets share the rest equally. A
    single target has weight 1. `targets` has shape (n, k).
    """
    count = targets.shape[1]
    first, rest = shares_of_targets(count, text_share)
    # The number is not assigned to an element, because that would copy it to the GPU and wait for the GPU.
    parts = torch.full((1,), first, device=targets.device), torch.full((count - 1,), rest, device=targets.device)
    return torch.cat(parts)


def shares_of_targets(count: int, text_share: float) -> tuple[float, float]:
    """Return the weights that `target_shares` gives to the first of `count` targets and to each of the others."""
    return (text_share, (1 - text_share) / (count - 1)) if count > 1 else (1.0, 0.0)


def exact_cross_entropy(
    model: LanguageModel, hidden: Tensor, target_ids: Tensor, sample: Tensor | None = None, text_share: float = 1.0
) -> Tensor:
    """Return the cross-entropy of the full softmax, computed with all logits at once.

    The other losses are tested against this definition.
    """
    logits = model.logits(hidden).flatten(0, 1)
    targets = target_ids.reshape(len(logits), -1)
    losses = [functional.cross_entropy(logits, one, ignore_index=model.pad_id) for one in targets.unbind(dim=1)]
    return (torch.stack(losses) * target_shares(targets, text_share)).sum()


def token_nll(model: LanguageModel, hidden: Tensor, target_ids: Tensor) -> Tensor:
    """Return the negative log-likelihood of each token in nats, (b, t) float32, without a gradient.

    `hidden` has shape (b, t, H) and `target_ids` has shape (b, t). At `<pad>` the result is 0.
    """
    losses = []
    for rows, ids in in_rows(hidden, target_ids):
        logits = model.logits(rows).float()
        losses.append(functional.cross_entropy(logits, ids, ignore_index=model.pad_id, reduction="none").detach())
    return torch.cat(losses).view(target_ids.shape)


def in_rows(hidden: Tensor, target_ids: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield chunks of tokens whose logits are computed together, as hidden values (n, H) and targets (n,).

    `hidden` has shape (b, t, H) and `target_ids` has shape (b, t).
    """
    at_once = rows_scored_together(hidden.device)
    return zip(hidden.flatten(0, 1).split(at_once), target_ids.flatten().split(at_once), strict=True)


def rows_scored_together(device: torch.device) -> int:
    return CPU_ROWS if device.type == "cpu" else GPU_ROWS
