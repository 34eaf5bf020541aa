"""The layer of a model without a network.

Its output is zero, so the logits equal the head's bias. The module imports only torch.
"""

import torch
from torch import Tensor

from .cell import Cell


class NoLayer(Cell):
    """The layer h' = 0, which is used if the model is an n-gram model without a network.

    If the head's bias contains the log frequencies of the tokens, the network is a unigram model. The n-gram model then
    computes all other probabilities.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=1)
        # The device of this buffer is the device of the model.
        self.register_buffer("zero", torch.zeros(1), persistent=False)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return zeros, (b, H), and the same state, (b, 1), for the inputs x (b, input)."""
        return x.new_zeros(len(x), self.hidden_size), state

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return zeros, (b, t, H), and the same state, for the inputs x (b, t, input)."""
        return x.new_zeros(*x.shape[:2], self.hidden_size), self.initial_state(x) if state is None else state
