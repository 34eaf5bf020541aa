"""The minimal gated recurrent unit (Feng et al. 2024, "Were RNNs all we needed?"). The module imports only torch."""

import torch
from torch import Tensor, nn

from .cell import product
from .parallel_scan import ScannedCell


class MinGRUCell(ScannedCell):
    """A GRU whose gate and candidate do not depend on the state.

        z = σ(x W_z + b_z)
        n = g(x W_n + b_n)
        h' = (1 - z) ⊙ h + z ⊙ n

    W (input, 2H) and b (2H,) contain z and n side by side.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, 2 * hidden_size))
        self.b = nn.Parameter(torch.zeros(2 * hidden_size))

    def keep_and_add(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, n = (product(x, self.W, self.precision) + self.b).chunk(2, dim=-1)
        z = torch.sigmoid(z)
        return 1 - z, z * positive(n)


def positive(x: Tensor) -> Tensor:
    """Return the function g of the paper, which is always positive: x + 1/2 for x ≥ 0, otherwise σ(x)."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))
