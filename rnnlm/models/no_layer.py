"""The layer of a model without a network.

The output of the layer is zero, so the logits equal the head's bias. The module imports only torch.
"""

import torch
from torch import Tensor

from .cell import Cell


class NoLayer(Cell):
    """The layer h' = 0 of a model that is an n-gram model without a network.

    If the head's bias contains the log frequencies of the tokens, the network is a unigram model. All other
    probabilities are those of the n-gram model.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=1)
        # This buffer has the same device as the model.
        self.register_buffer("zero", torch.zeros(1), persistent=False)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return zeros, (b, H), and the unchanged state, (b, 1), for the inputs x (b, input)."""
        return x.new_zeros(len(x), self.hidden_size), state

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return zeros, (b, t, H), and the same state, for the inputs x (b, t, input)."""
        return x.new_zeros(*x.shape[:2], self.hidden_size), self.initial_state(x) if state is None else state
