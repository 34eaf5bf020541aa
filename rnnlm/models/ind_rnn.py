"""A layer of independently recurrent units between two projections.

The module is copied into every bundle, so it imports only torch.
"""

import torch
from torch import Tensor, nn

from .cell import Cell, InitialWeights, product, used_precision
from .elman import BackpropagationThroughTime

UNITS_PER_OUTPUT = 3  # The number of recurrent units for each unit of the output.


class IndRNNCell(Cell):
    """The layer h' = relu(x W + u ⊙ h + b), output = h' V, which is a feed-forward layer with recurrent hidden units.

    Each unit reads only its own previous state (Li et al. 2018). The state is h, which has S = UNITS_PER_OUTPUT · H
    numbers.

    W has shape (input, S), b has shape (S,) and V has shape (S, H). The trained parameter is U, (S,). u is U clamped to
    [-1, 1], because states could grow without bound for |u| > 1.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        units = UNITS_PER_OUTPUT * hidden_size
        super().__init__(hidden_size, state_size=units)
        self.W = nn.Parameter(torch.empty(input_size, units))
        self.U = nn.Parameter(torch.empty(units))
        self.b = nn.Parameter(torch.zeros(units))
        self.V = nn.Parameter(torch.empty(units, hidden_size))

    def initialize(self, weights: InitialWeights) -> None:
        """Draw the weights.

        U is set to values from 0 to 1, so that some units forget their state at once and others never.

        b is set to 0.
        """
        weights.fill(self.W, len(self.W))
        weights.fill(self.V, len(self.V))
        self.U.copy_(torch.linspace(0.0, 1.0, self.state_size))
        nn.init.zeros_(self.b)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(x @ self.W + state * self.U.clamp(-1.0, 1.0) + self.b)
        return h @ self.V, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute all time steps with a handwritten gradient."""
        state = self.initial_state(x) if state is None else state
        weights, precision = (self.W, self.U.clamp(-1.0, 1.0), self.b), used_precision(x, self.precision)
        states, last = BackpropagationThroughTime.apply(x, state, *weights, "relu", precision)
        return product(states, self.V, self.precision), last
