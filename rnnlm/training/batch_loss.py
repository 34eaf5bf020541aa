"""Forward and loss as one module: what a step calls, and what DistributedDataParallel wraps."""

import torch
from torch import Tensor, nn

from rnnlm.models.dropout import Dropout, training_hidden
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.training.losses.definition import Loss

NO_DROPOUT = Dropout()


class BatchLoss(nn.Module):
    """Teacher forcing: rows and the state before them → their mean loss and the state after them."""

    def __init__(self, model: ElmanLanguageModel, loss: Loss, dropout: Dropout = NO_DROPOUT) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.dropout = dropout

    def forward(
        self,
        input_ids: Tensor,
        target_ids: Tensor,
        state: Tensor | None,
        generator: torch.Generator,
        rows: range | None = None,
    ) -> tuple[Tensor, Tensor]:
        """input_ids, target_ids: (b, t) int64, state: (b, L, H) or None for zeros → scalar, state (b, L, H).

        rows: which of the step's batch they are, where that was taken apart. Masks are drawn first, then what the
        loss draws. The scalar is in nats per predicted token. Without rows it is 0, and so is the gradient of each
        parameter: a process that has no rows must take part in adding up the gradients all the same.
        """
        if not len(input_ids):
            nothing = sum(((parameter * 0.0).sum() for parameter in self.model.parameters()), torch.zeros(()))
            stack = self.model.stack
            return nothing, self.model.head.bias.new_zeros(0, len(stack.cells), stack.hidden_size)
        hidden, state = training_hidden(self.model, self.dropout, input_ids, state, generator, rows)
        return self.loss(self.model, hidden, target_ids, generator), state
