"""One optimiser step: forward, backward through time, clipping, update."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rnnlm.sequences.batches import Batch
from rnnlm.training.batch_loss import Draws
from rnnlm.training.devices import sent
from rnnlm.training.distributed.process_group import ALONE, World
from rnnlm.training.optimizers import clip_gradients
from rnnlm.training.tree_map import changed


@dataclass(frozen=True)
class Step:
    """loss: nats per predicted token of the whole batch; norm: of the gradients before clipping; both scalars on
    the device and the same in every process.

    state: (b, L, H) after this process's rows.
    """

    loss: Tensor
    norm: Tensor
    state: Tensor


@dataclass(frozen=True)
class Part:
    """Rows of a batch that go through the model together, on its device. share: of the batch's predicted tokens;
    None: all."""

    input_ids: Tensor  # (b, t) int64
    target_ids: Tensor
    state: Tensor | None  # (b, L, H)
    draws: Draws
    share: Tensor | None  # a scalar


class Update(Protocol):
    def __call__(
        self, batch_loss: nn.Module, optimizer: Optimizer, parts: list[Part], clip_norm: float, world: World
    ) -> Step: ...


def update(batch_loss: nn.Module, optimizer: Optimizer, parts: list[Part], clip_norm: float, world: World) -> Step:
    """Gradients of all parts, added up, and one update by them. Nothing is drawn, nothing waits for the device."""
    optimizer.zero_grad(set_to_none=True)
    losses, states = [], []
    for index, part in enumerate(parts):
        # Gradients are added up here, and averaged between processes together with those of the last part.
        with world.gradients_kept_apart(batch_loss, index + 1 < len(parts)):
            loss, after = batch_loss(part.input_ids, part.target_ids, part.state, part.draws)
            if part.share is not None:
                loss = loss * part.share.to(loss.dtype)
            # Processes average their gradients; here they are to be added up.
            (loss * world.size if world.size > 1 else loss).backward()
        losses.append(loss.detach())
        states.append(after)
    norm = clip_gradients(batch_loss.parameters(), clip_norm)
    optimizer.step()
    if len(parts) == 1:
        return Step(world.sum(losses[0]), norm, states[0])
    return Step(world.sum(torch.stack(losses).sum()), norm, torch.cat(states))


def take_step(
    batch_loss: nn.Module,
    optimizer: Optimizer,
    batch: Batch,
    state: Tensor | None,
    clip_norm: float,
    generator: torch.Generator,
    accumulation: int = 1,
    world: World = ALONE,
    updated: Update = update,
) -> Step:
    """The update by the whole batch, however many processes and micro-batches it is taken apart into.

    batch_loss: a BatchLoss, as world.parallel gave it. updated: `update`, or a way to do the same.
    """
    # Truncated back-propagation through time: the state goes on, its gradient does not.
    state = state.detach() if batch.carries_state and state is not None else None
    parts = parts_of(batch_loss, batch, state, generator, accumulation, world)
    return updated(batch_loss, optimizer, parts, clip_norm, world)


def parts_of(
    batch_loss: nn.Module,
    batch: Batch,
    state: Tensor | None,
    generator: torch.Generator,
    accumulation: int,
    world: World,
) -> list[Part]:
    """A process's rows of a batch in `accumulation` parts, with the draws of each, sent to the device."""
    own: Any = getattr(batch_loss, "module", batch_loss)  # DistributedDataParallel holds the BatchLoss as its module
    device = own.model.head.bias.device
    batches = batch.parts(accumulation)
    states = [None] * len(batches) if state is None else list(state.tensor_split(len(batches)))
    rows = range(world.rank, world.rank + len(batch.input_ids) * world.size, world.size)  # as Batch.share deals them
    parts = []
    for index, piece in enumerate(batches):
        # A copy, but for the last: every part, in whatever process, draws the same.
        drawn_from = generator if index + 1 == len(batches) else generator.clone_state()
        draws = own.draw(rows[: len(piece.input_ids)], drawn_from)
        rows = rows[len(piece.input_ids) :]
        whole = len(batches) == 1 and world.size == 1
        share = None if whole else (piece.mask.sum().double() / batch.predicted_tokens).to(own.model.head.bias.dtype)
        part = Part(piece.input_ids, piece.target_ids, states[index], draws, share)
        parts.append(changed(part, lambda tensor: sent(tensor, device)))
    return parts
