"""The training loss: chosen by the configuration, and one module with the forward pass for DistributedDataParallel."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from rnnlm.config import TrainingConfig
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.dropout import Dropout, Masks, draw_masks, masked_hidden
from rnnlm.models.language_model import LanguageModel

NO_DROPOUT = Dropout()


@dataclass(frozen=True)
class Draws:
    """All random values of a step, drawn before it, so that the step is a function of its arguments."""

    masks: Masks | None = None
    sample: Tensor | None = None  # (classes,) int64, for the sampled loss


NO_DRAWS = Draws()


class BatchLoss(nn.Module):
    """Teacher forcing: rows and the state before them → their mean loss and the state after them."""

    def __init__(self, model: LanguageModel, loss: Loss, dropout: Dropout = NO_DROPOUT) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.dropout = dropout

    def draw(self, rows: range, generator: torch.Generator) -> Draws:
        """Dropout masks, then the loss's sample, on the CPU. rows: indices into the step's whole batch."""
        masks = draw_masks(self.model, self.dropout, rows, generator)
        sample = self.loss.draw(generator) if isinstance(self.loss, SampledCrossEntropy) else None
        return Draws(masks, sample)

    def forward(
        self, input_ids: Tensor, target_ids: Tensor, state: Tensor | None, draws: Draws = NO_DRAWS
    ) -> tuple[Tensor, Tensor]:
        """input_ids, target_ids: (b, t) int64, state: (b, L, S) or None for zeros → scalar loss, state (b, L, S).

        The loss is in nats per predicted token. Without rows the loss and all gradients are 0: a rank without rows
        must still take part in the gradient average.
        """
        if not len(input_ids):
            zero = sum(((parameter * 0.0).sum() for parameter in self.model.parameters()), torch.zeros(()))
            return zero, self.model.stack.initial_state(0)
        hidden, state = masked_hidden(self.model, draws.masks, input_ids, state)
        return self.loss(self.model, hidden, target_ids, draws.sample), state


def choose_loss(config: TrainingConfig, training_counts: np.ndarray, never_predicted: np.ndarray) -> Loss:
    """training_counts: (V,) how often the training split predicts each class; never_predicted: (V,) bool."""
    precision = getattr(torch, config.product_precision)
    if config.loss.kind == "sampled":
        unigram = np.where(never_predicted, 0, np.maximum(training_counts, 1))  # count unseen classes once
        return SampledCrossEntropy(unigram, config.loss.sampled_classes, precision)
    return ChunkedCrossEntropy(precision)
