"""A network without recurrence, which reads only the last WINDOW tokens (Bengio et al. 2003).

The module imports only torch, because bundles contain it.
"""

import torch
from torch import Tensor, nn

from .cell import Cell, product

WINDOW = 4  # The number of tokens that the layer reads, which is also the context length of a 5-gram model.


class FeedForwardCell(Cell):
    """The layer h = tanh(x_t W_0 + x_{t-1} W_1 + x_{t-2} W_2 + x_{t-3} W_3 + b). Earlier tokens have no effect.

    W contains W_0 to W_3 side by side, (input, WINDOW · H). The state has (WINDOW - 1) · H numbers, which are the
    contributions of the inputs read so far to each of the next WINDOW - 1 steps, before b and tanh are applied.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=(WINDOW - 1) * hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, WINDOW * hidden_size))
        self.b = nn.Parameter(torch.zeros(hidden_size))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        sums = nn.functional.pad(state, (0, self.hidden_size)) + x @ self.W
        now, later = sums.split([self.hidden_size, self.state_size], dim=1)
        return torch.tanh(now + self.b), later

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute all time steps with one matrix product."""
        state = self.initial_state(x) if state is None else state
        steps = x.shape[1]
        products = product(x, self.W, self.precision).chunk(WINDOW, dim=-1)
        moved = [nn.functional.pad(part, (0, 0, back, WINDOW - 1 - back)) for back, part in enumerate(products)]
        pending = nn.functional.pad(state.unflatten(1, (WINDOW - 1, -1)), (0, 0, 0, steps))
        sums = sum(moved, start=pending)  # (b, t + WINDOW - 1, H)
        return torch.tanh(sums[:, :steps] + self.b), sums[:, steps:].flatten(1)
