"""One optimiser step: forward, backward through time, clipping, update."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rnnlm.sequences.batching import Batch
from rnnlm.training.optimization import clip_gradients
from rnnlm.training.world import ALONE, World


@dataclass(frozen=True)
class Step:
    """loss: nats per predicted token of the whole batch; norm: of the gradients before clipping; both scalars on
    the device and the same in every process.

    state: (b, L, H) after this process's rows.
    """

    loss: Tensor
    norm: Tensor
    state: Tensor


def take_step(
    batch_loss: nn.Module,
    optimizer: Optimizer,
    batch: Batch,
    state: Tensor | None,
    clip_norm: float,
    generator: torch.Generator,
    accumulation: int = 1,
    world: World = ALONE,
) -> Step:
    """The update of the whole batch, however many processes and micro-batches it is taken apart into.

    batch_loss: a BatchLoss, as world.parallel gave it. Alone and in one piece nothing here waits for the device.
    """
    device = next(batch_loss.parameters()).device
    # Truncated back-propagation through time: the state goes on, its gradient does not.
    state = state.detach() if batch.carries_state and state is not None else None
    optimizer.zero_grad(set_to_none=True)
    parts = batch.parts(accumulation)
    states = [None] * len(parts) if state is None else list(state.tensor_split(len(parts)))
    losses = []
    rows = range(world.rank, world.rank + len(batch.input_ids) * world.size, world.size)  # as Batch.share deals them
    for index, part in enumerate(parts):
        input_ids = part.input_ids.to(device, non_blocking=True)
        target_ids = part.target_ids.to(device, non_blocking=True)
        # Gradients are added up here, and averaged between processes together with those of the last part.
        with world.gradients_kept_apart(batch_loss, index + 1 < len(parts)):
            # A copy, but for the last: every part, in whatever process, draws the same.
            draws = generator if index + 1 == len(parts) else generator.clone_state()
            loss, after = batch_loss(input_ids, target_ids, states[index], draws, rows[: len(input_ids)])
            rows = rows[len(input_ids) :]
            if len(parts) > 1 or world.size > 1:
                loss = loss * (part.own_tokens / batch.predicted_tokens)
            # Processes average their gradients; here they are to be added up.
            (loss * world.size if world.size > 1 else loss).backward()
        losses.append(loss.detach())
        states[index] = after
    norm = clip_gradients(batch_loss.parameters(), clip_norm)
    optimizer.step()
    if len(parts) == 1:
        return Step(world.sum(losses[0]), norm, after)
    return Step(world.sum(torch.stack(losses).sum()), norm, torch.cat(states))  # type: ignore[arg-type]
