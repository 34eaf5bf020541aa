"""One optimizer step: forward pass, truncated backpropagation through time, gradient clipping and update.

All random values are drawn before the step, so that the step itself is a deterministic function of its arguments.
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
    """All random values of one training step. They are drawn before the step."""

    masks: Masks | None = None
    sample: Tensor | None = None  # The class ids for the sampled loss, (classes,) int64.


NO_DRAWS = Draws()


class BatchLoss(nn.Module):
    """The mean loss of rows under teacher forcing, and the recurrent state after the rows."""

    def __init__(self, model: LanguageModel, loss: Loss, dropout: Dropout = NO_DROPOUT) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.dropout = dropout

    def draw(self, rows: range, generator: torch.Generator) -> Draws:
        """Draw the dropout masks and the classes of a sampled loss on the CPU, in this order.

        `rows` are the indices of the rows of the micro-batch in the whole batch of the step.
        """
        masks = draw_masks(self.model, self.dropout, rows, generator)
        sample = self.loss.draw(generator) if isinstance(self.loss, SampledCrossEntropy) else None
        return Draws(masks, sample)

    def forward(
        self, input_ids: Tensor, target_ids: Tensor, state: Tensor | None, draws: Draws = NO_DRAWS
    ) -> tuple[Tensor, Tensor]:
        """Return the scalar loss, in nats per predicted token, and the recurrent state after the rows.

        If a rank has no rows, its loss and all its gradients are 0, so that it takes part in averaging the gradients.

        Args:
            input_ids: The input token ids, (b, t) int64.
            target_ids: The target token ids, (b, t) or (b, t, k) int64.
            state: The initial state, (b, L, S). If None, the state is zero.
            draws: The dropout masks and the sampled classes.
        """
        if not len(input_ids):
            zero = sum(((parameter * 0.0).sum() for parameter in self.model.parameters()), torch.zeros(()))
            return zero, self.model.stack.initial_state(0)
        hidden, state = masked_hidden(self.model, draws.masks, input_ids, state)
        return self.loss(self.model, hidden, target_ids, draws.sample), state


def with_usable_precision(training: TrainingConfig, device: torch.device) -> TrainingConfig:
    """Return the settings with a precision of matrix products that this device supports."""
    return training.model_copy(update={"precision": usable_precision(training.product_precision, device)})


def choose_loss(config: TrainingConfig, unigram_counts: np.ndarray) -> Loss:
    """Return the configured loss.

    `unigram_counts` has shape (V,); see rnnlm/sequences/unigram.py. The sampled loss samples frequent tokens more
    often.
    """
    precision, further = getattr(torch, config.product_precision), further_targets(config)
    text_share = 1.0 if further is None else 1 - further.share
    if config.loss.is_sampled:
        return SampledCrossEntropy(unigram_counts, config.loss.sampled_classes, precision, text_share)
    return ChunkedCrossEntropy(precision, text_share)


@dataclass(frozen=True)
class Step:
    """The results of a training step.

    The loss and the norm are on the device, and have the same values on all ranks.
    """

    loss: Tensor  # A scalar: the loss in nats per predicted token of the whole batch.
    norm: Tensor  # A scalar: the L2 norm of the gradients before clipping.
    state: Tensor  # The state after this rank's rows, (b, L, S), detached from the graph.


@dataclass(frozen=True)
class MicroBatch:
    """Rows of a batch that the model reads together. All tensors are on the model's device."""

    input_ids: Tensor  # The input token ids, (b, t) int64.
    target_ids: Tensor  # The target token ids, (b, t) or (b, t, k) int64.
    state: Tensor | None  # The initial state, (b, L, S).
    draws: Draws
    share: Tensor | None  # A scalar: the micro-batch's fraction of the batch's predicted tokens. None means 1.
    weight: Tensor | None  # A scalar: the weight of the batch's gradient. None means 1.


@dataclass
class Updater:
    """A callable that updates the parameters by one batch.

    Args:
        batch_loss: A BatchLoss, wrapped by process_group.data_parallel().
        optimizer: The optimizer of the model's parameters.
        clip_norm: The largest L2 norm of the gradients. If None, gradients are not clipped.
        process_group: The group of processes that share each batch.
        mean_tokens: The mean number of predicted tokens in a batch. A batch's gradient is multiplied by its own number
            of tokens divided by this mean, so that every token has the same weight. If None, every batch has the same
            weight.
    """

    batch_loss: nn.Module
    optimizer: Optimizer
    clip_norm: float | None
    process_group: ProcessGroup = SINGLE_PROCESS
    mean_tokens: float | None = None

    @property
    def recorded_shapes(self) -> int:
        """The number of batch shapes for which a CUDA graph is recorded; see captured_step.py."""
        return 0

    def __call__(self, micro_batches: list[MicroBatch]) -> Step:
        """Sum the gradients of all micro-batches and update the parameters once.

        The step draws no random values and does not wait for the device.
        """
        self.optimizer.zero_grad(set_to_none=True)
        size = self.process_group.size
        losses, states = [], []
        for index, part in enumerate(micro_batches):
            # Gradients are averaged over the ranks only in the backward pass of the last micro-batch, which includes
            # those of earlier micro-batches.
            with self.process_group.no_sync(self.batch_loss, index + 1 < len(micro_batches)):
                loss, state = self.batch_loss(part.input_ids, part.target_ids, part.state, part.draws)
                if part.share is not None:
                    loss = loss * part.share.to(loss.dtype)
                weighted = loss if part.weight is None else loss * part.weight.to(loss.dtype)
                # DistributedDataParallel averages the gradients over the ranks. Multiplying the loss by the number of
                # ranks turns this mean into a sum.
                (weighted * size if size > 1 else weighted).backward()
            # The losses are cloned, because a compiled step overwrites its results. Detaching the state truncates
            # backpropagation.
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
    """Update the parameters by a whole batch. The result does not depend on the number of ranks or micro-batches."""
    return updater(split_batch(updater, batch, state if batch.carries_state else None, generator, accumulation))


def split_batch(
    updater: Updater, batch: Batch, state: Tensor | None, generator: torch.Generator, accumulation: int
) -> list[MicroBatch]:
    """Split this rank's rows into `accumulation` micro-batches with their random draws, and copy them to the device."""
    # The BatchLoss may be wrapped in a DistributedDataParallel, which has it as attribute `module`.
    own: Any = getattr(updater.batch_loss, "module", updater.batch_loss)
    device = own.model.head.bias.device
    mean = updater.mean_tokens
    weight = None if mean is None else torch.full((), batch.predicted_tokens / mean, device=device)
    pieces = batch.micro_batches(accumulation)
    states = [None] * len(pieces) if state is None else list(state.tensor_split(len(pieces)))
    rank, size = updater.process_group.rank, updater.process_group.size
    # Batch.share gives every `size`-th row of the batch to this rank.
    rows = range(rank, rank + len(batch.input_ids) * size, size)
    micro_batches = []
    for index, piece in enumerate(pieces):
        # Every micro-batch on every rank draws its values from the same state of the generator.
        piece_generator = generator if index + 1 == len(pieces) else generator.clone_state()
        draws = own.draw(rows[: len(piece.input_ids)], piece_generator)
        rows = rows[len(piece.input_ids) :]
        whole = len(pieces) == 1 and size == 1
        share = None if whole else (piece.mask.sum().double() / batch.predicted_tokens).to(own.model.head.bias.dtype)
        micro_batch = MicroBatch(piece.input_ids, piece.target_ids, states[index], draws, share, weight)
        micro_batches.append(to_device(micro_batch, device))
    return micro_batches
