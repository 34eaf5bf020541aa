"""A few quick training steps, with the model, optimiser and clipping of the real training and none of the rest."""

from collections.abc import Iterable

import torch
from torch import Tensor

from rnnlm.config import OptimizerConfig
from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.training.optimizers import clip_gradients, make_optimizer


def fit(
    model: ElmanLanguageModel,
    batches: Iterable[tuple[Tensor, Tensor]],
    learning_rate: float,
    clip_norm: float = 1.0,
) -> list[float]:
    """A step for each (input_ids, target_ids), both (b, t), `<pad>` where nothing is to be predicted.

    Each batch begins with state zero; the rate is constant. Returns the loss before each step, nats per token.
    """
    optimizer = make_optimizer(model, OptimizerConfig(learning_rate=learning_rate, weight_decay=0.0))
    losses = []
    for input_ids, target_ids in batches:
        hidden, _ = model.hidden(input_ids)
        loss = exact_cross_entropy(model, hidden, target_ids)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_gradients(model.parameters(), clip_norm)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist() if losses else []
