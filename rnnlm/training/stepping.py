"""One optimiser step: forward, backward through time, clipping, update."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from rnnlm.models.dropout import Dropout, training_hidden
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batching import Batch
from rnnlm.training.losses.definition import Loss
from rnnlm.training.optimization import clip_gradients

NO_DROPOUT = Dropout()


@dataclass(frozen=True)
class Step:
    """loss: nats per predicted token; norm: of the gradients before clipping; both scalars on the device.

    state: (b, L, H) after the batch.
    """

    loss: Tensor
    norm: Tensor
    state: Tensor


def take_step(
    model: ElmanLanguageModel,
    loss: Loss,
    optimizer: Optimizer,
    batch: Batch,
    state: Tensor | None,
    clip_norm: float,
    generator: torch.Generator,
    dropout: Dropout = NO_DROPOUT,
) -> Step:
    """Nothing here waits for the device. The masks of dropout are drawn first, then what the loss draws."""
    device = model.head.weight.device
    # Truncated back-propagation through time: the state goes on, its gradient does not.
    state = state.detach() if batch.carries_state and state is not None else None
    optimizer.zero_grad(set_to_none=True)
    input_ids = batch.input_ids.to(device, non_blocking=True)
    target_ids = batch.target_ids.to(device, non_blocking=True)
    hidden, state = training_hidden(model, dropout, input_ids, state, generator)
    batch_loss = loss(model, hidden, target_ids, generator)
    batch_loss.backward()
    norm = clip_gradients(model.parameters(), clip_norm)
    optimizer.step()
    return Step(batch_loss.detach(), norm, state)
