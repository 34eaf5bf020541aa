"""The minimal long short-term memory (Feng et al. 2024, "Were RNNs all we needed?"). The module imports only torch."""

import torch
from torch import Tensor, nn

from .cell import product
from .min_gru import positive
from .parallel_scan import ScannedCell


class MinLSTMCell(ScannedCell):
    """An LSTM whose gates and candidate do not depend on the state.

        f = σ(x W_f + b_f)
        i = σ(x W_i + b_i)
        n = g(x W_n + b_n)
        h' = f / (f + i) ⊙ h + i / (f + i) ⊙ n

    W (input, 3H) and b (3H,) contain f, i and n side by side.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, 3 * hidden_size))
        self.b = nn.Parameter(torch.zeros(3 * hidden_size))

    def keep_and_add(self, x: Tensor) -> tuple[Tensor, Tensor]:
        f, i, n = (product(x, self.W, self.precision) + self.b).chunk(3, dim=-1)
        # f / (f + i) is computed as σ(log f - log i), because f + i may underflow to 0.
        keep = torch.sigmoid(nn.functional.logsigmoid(f) - nn.functional.logsigmoid(i))
        return keep, (1 - keep) * positive(n)
