"""The minimal gated recurrent unit (Feng et al. 2024, "Were RNNs all we needed?"). Imports only torch."""

import torch
from torch import Tensor, nn

from .cell import Cell, product
from .parallel_scan import parallel_scan


class MinGRUCell(Cell):
    """A GRU whose gate and candidate do not read the state, so that training needs no loop over time.

        z = σ(x W_z + b_z)
        n = g(x W_n + b_n)
        h' = (1 - z) ⊙ h + z ⊙ n

    The state and the output are both h. W: (input, 2H) and b: (2H,) hold z and n side by side.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, 2 * hidden_size))
        self.b = nn.Parameter(torch.zeros(2 * hidden_size))

    def gate_and_candidate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x: (…, input) → z and n, each (…, H)."""
        z, n = (product(x, self.W, self.precision) + self.b).chunk(2, dim=-1)
        return torch.sigmoid(z), positive(n)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        z, n = self.gate_and_candidate(x)
        h = (1 - z) * state + z * n
        return h, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """With a parallel scan."""
        z, n = self.gate_and_candidate(x)
        outputs = parallel_scan(1 - z, z * n, self.initial_state(x) if state is None else state)
        return outputs, outputs[:, -1]


def positive(x: Tensor) -> Tensor:
    """g in the paper, always above 0: x + 1/2 for x ≥ 0, else σ(x)."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))
