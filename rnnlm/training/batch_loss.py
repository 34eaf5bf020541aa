"""Forward and loss as one module: what a step calls, and what DistributedDataParallel wraps."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.dropout import Dropout, Masks, draw_masks, masked_hidden
from rnnlm.models.elman import ElmanLanguageModel

NO_DROPOUT = Dropout()


@dataclass(frozen=True)
class Draws:
    """All that a step leaves to chance, drawn before it: the step itself is then a function of its arguments."""

    masks: Masks | None = None
    sample: Tensor | None = None  # (classes,) int64, of the sampled loss


NO_DRAWS = Draws()


class BatchLoss(nn.Module):
    """Teacher forcing: rows and the state before them → their mean loss and the state after them."""

    def __init__(self, model: ElmanLanguageModel, loss: Loss, dropout: Dropout = NO_DROPOUT) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.dropout = dropout

    def draw(self, rows: range, generator: torch.Generator) -> Draws:
        """On the CPU. rows: which of the step's batch the draws are for.

        Masks are drawn first, then what the loss draws.
        """
        masks = draw_masks(self.model, self.dropout, rows, generator)
        sample = self.loss.draw(generator) if isinstance(self.loss, SampledCrossEntropy) else None
        return Draws(masks, sample)

    def forward(
        self, input_ids: Tensor, target_ids: Tensor, state: Tensor | None, draws: Draws = NO_DRAWS
    ) -> tuple[Tensor, Tensor]:
        """input_ids, target_ids: (b, t) int64, state: (b, L, H) or None for zeros → scalar, state (b, L, H).

        The scalar is in nats per predicted token. Without rows it is 0, and so is the gradient of each
        parameter: a process that has no rows must take part in adding up the gradients all the same.
        """
        if not len(input_ids):
            nothing = sum(((parameter * 0.0).sum() for parameter in self.model.parameters()), torch.zeros(()))
            stack = self.model.stack
            return nothing, self.model.head.bias.new_zeros(0, len(stack.cells), stack.hidden_size)
        hidden, state = masked_hidden(self.model, draws.masks, input_ids, state)
        return self.loss(self.model, hidden, target_ids, draws.sample), state
