"""One optimizer step: forward, truncated backpropagation through time, gradient clipping, update.

All random values of a step are drawn before it, so that the step itself is a function of its arguments.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rnnlm.config.training_config import TrainingConfig
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.devices import to_device, usable_precision
from rnnlm.models.dropout import Dropout, Masks, draw_masks, masked_hidden
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch
from rnnlm.training.further_targets import further_targets
from rnnlm.training.optimizers import clip_gradients
from rnnlm.training.process_group import SINGLE_PROCESS, ProcessGroup

NO_DROPOUT = Dropout()


@dataclass(frozen=True)
class Draws:
    """All random values of a step, drawn before it, so that the step is a function of its arguments."""

    masks: Masks | None = None
    sample: Tensor | None = None  # (classes,) int64, for the sampled loss


NO_DRAWS = Draws()


class BatchLoss(nn.Module):
    """Teacher forcing: compute the mean loss of rows, and the state after them, from the state before them."""

    def __init__(self, model: LanguageModel, loss: Loss, dropout: Dropout = NO_DROPOUT) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.dropout = dropout

    def draw(self, rows: range, generator: torch.Generator) -> Draws:
        """Draw dropout masks, then the loss's sample, on the CPU. rows: indices into the step's whole batch."""
        masks = draw_masks(self.model, self.dropout, rows, generator)
        sample = self.loss.draw(generator) if isinstance(self.loss, SampledCrossEntropy) else None
        return Draws(masks, sample)

    def forward(
        self, input_ids: Tensor, target_ids: Tensor, state: Tensor | None, draws: Draws = NO_DRAWS
    ) -> tuple[Tensor, Tensor]:
        """Return the scalar loss, in nats per predicted token, and the state (b, L, S).

        input_ids: (b, t), target_ids: (b, t) or (b, t, k), both int64; state: (b, L, S) or None for zeros. Without rows
        the loss and all gradients are 0: a rank without rows must still take part in the gradient average.
        """
        if not len(input_ids):
            zero = sum(((parameter * 0.0).sum() for parameter in self.model.parameters()), torch.zeros(()))
            return zero, self.model.stack.initial_state(0)
        hidden, state = masked_hidden(self.model, draws.masks, input_ids, state)
        return self.loss(self.model, hidden, target_ids, draws.sample), state


def with_usable_precision(training: TrainingConfig, device: torch.device) -> TrainingConfig:
    """Return the settings with the precision that products have on this device."""
    return training.model_copy(update={"precision": usable_precision(training.product_precision, device)})


def choose_loss(config: TrainingConfig, unigram_counts: np.ndarray) -> Loss:
    """Choose the loss.

    unigram_counts: (V,), from rnnlm/sequences/unigram.py; frequent classes are sampled more often.
    """
    precision, further = getattr(torch, config.product_precision), further_targets(config)
    text_share = 1.0 if further is None else 1 - further.share
    if config.loss.is_sampled:
        return SampledCrossEntropy(unigram_counts, config.loss.sampled_classes, precision, text_share)
    return ChunkedCrossEntropy(precision, text_share)


@dataclass(frozen=True)
class Step:
    """Results of a step. loss and norm are on the device and equal on all ranks."""

    loss: Tensor  # scalar, nats per predicted token of the whole batch
    norm: Tensor  # scalar, L2 norm of the gradients before clipping
    state: Tensor  # (b, L, S) after this rank's rows, without a gradient


@dataclass(frozen=True)
class MicroBatch:
    """Rows of a batch that go through the model together, on its device."""

    input_ids: Tensor  # (b, t) int64
    target_ids: Tensor  # (b, t) or (b, t, k) int64
    state: Tensor | None  # (b, L, S)
    draws: Draws
    share: Tensor | None  # scalar: share of the batch's predicted tokens; None: all of them
    weight: Tensor | None  # scalar: of the batch's gradient; None: 1


@dataclass
class Updater:
    """Updates the parameters by a batch. batch_loss: a BatchLoss wrapped by process_group.data_parallel.

    mean_tokens: predicted tokens of an average batch. A batch's gradient is weighted by its tokens relative to them, so
    that every token counts the same. None: every batch counts the same.
    """

    batch_loss: nn.Module
    optimizer: Optimizer
    clip_norm: float | None
    process_group: ProcessGroup = SINGLE_PROCESS
    mean_tokens: float | None = None

    @property
    def recorded_shapes(self) -> int:
        """Number of shapes of batches with a CUDA graph of their own; see captured_step.py."""
        return 0

    def __call__(self, micro_batches: list[MicroBatch]) -> Step:
        """Sum the gradients of all micro-batches and update once. Draws nothing and never waits for the device."""
        self.optimizer.zero_grad(set_to_none=True)
        size = self.process_group.size
        losses, states = [], []
        for index, part in enumerate(micro_batches):
            # Only the last micro-batch averages gradients between ranks, including those summed before.
            with self.process_group.no_sync(self.batch_loss, index + 1 < len(micro_batches)):
                loss, state = self.batch_loss(part.input_ids, part.target_ids, part.state, part.draws)
                if part.share is not None:
                    loss = loss * part.share.to(loss.dtype)
                weighted = loss if part.weight is None else loss * part.weight.to(loss.dtype)
                # DistributedDataParallel averages gradients over ranks; multiplying by size makes it a sum.
                (weighted * size if size > 1 else weighted).backward()
            # Copies: a compiled step overwrites its results. Without gradients: this truncates backpropagation.
            losses.append(loss.detach().clone())
            states.append(state.detach().clone())
        norm = clip_gradients(self.batch_loss.parameters(), self.clip_norm)
        self.optimizer.step()
        if len(micro_batches) == 1:
            return Step(self.process_group.sum(losses[0]), norm, states[0])
        return Step(self.process_group.sum(torch.stack(losses).sum()), norm, torch.cat(states))


def take_step(
    updater: Updater, batch: Batch, state: Tensor | None, generator: torch.Generator, accumulation: int = 1
) -> Step:
    """Update by the whole batch. The result does not depend on the number of ranks and micro-batches."""
    return updater(split_batch(updater, batch, state if batch.carries_state else None, generator, accumulation))


def split_batch(
    updater: Updater, batch: Batch, state: Tensor | None, generator: torch.Generator, accumulation: int
) -> list[MicroBatch]:
    """Split this rank's rows into `accumulation` micro-batches with their random draws, on the device."""
    # DistributedDataParallel holds the BatchLoss as its module.
    own: Any = getattr(updater.batch_loss, "module", updater.batch_loss)
    device = own.model.head.bias.device
    mean = updater.mean_tokens
    weight = None if mean is None else torch.full((), batch.predicted_tokens / mean, device=device)
    pieces = batch.micro_batches(accumulation)
    states = [None] * len(pieces) if state is None else list(state.tensor_split(len(pieces)))
    rank, size = updater.process_group.rank, updater.process_group.size
    rows = range(rank, rank + len(batch.input_ids) * size, size)  # as Batch.share distributes them
    micro_batches = []
    for index, piece in enumerate(pieces):
        # Every micro-batch on every rank draws from the same generator state.
        piece_generator = generator if index + 1 == len(pieces) else generator.clone_state()
        draws = own.draw(rows[: len(piece.input_ids)], piece_generator)
        rows = rows[len(piece.input_ids) :]
        whole = len(pieces) == 1 and size == 1
        share = None if whole else (piece.mask.sum().double() / batch.predicted_tokens).to(own.model.head.bias.dtype)
        micro_batch = MicroBatch(piece.input_ids, piece.target_ids, states[index], draws, share, weight)
        micro_batches.append(to_device(micro_batch, device))
    return micro_batches
