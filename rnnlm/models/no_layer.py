"""The layer of a model without a network: its output is zero, so only the head's bias counts. Imports only torch."""

import torch
from torch import Tensor

from .cell import Cell


class NoLayer(Cell):
    """h' = 0. With a head bias of log frequencies the network is the unigram model; counts do the rest."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=1)
        self.register_buffer("zero", torch.zeros(1), persistent=False)  # where the model is

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return zeros, (b, H), and the same state. x: (b, input), state: (b, 1)."""
        return x.new_zeros(len(x), self.hidden_size), state

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return zeros, (b, t, H), and the same state. x: (b, t, input)."""
        return x.new_zeros(*x.shape[:2], self.hidden_size), self.initial_state(x) if state is None else state
