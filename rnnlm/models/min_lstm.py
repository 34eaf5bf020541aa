"""The minimal long short-term memory (Feng et al. 2024, "Were RNNs all we needed?"). Imports only torch."""

import torch
from torch import Tensor, nn

from .cell import Cell, product
from .min_gru import positive
from .parallel_scan import parallel_scan


class MinLSTMCell(Cell):
    """An LSTM whose gates and candidate do not read the state, so that training needs no loop over time.

        f = σ(x W_f + b_f)
        i = σ(x W_i + b_i)
        n = g(x W_n + b_n)
        h' = f / (f + i) ⊙ h + i / (f + i) ⊙ n

    The state and the output are both h. W: (input, 3H) and b: (3H,) hold f, i and n side by side.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, 3 * hidden_size))
        self.b = nn.Parameter(torch.zeros(3 * hidden_size))

    def share_and_candidate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x: (…, input) → f / (f + i) and n, each (…, H)."""
        f, i, n = (product(x, self.W, self.precision) + self.b).chunk(3, dim=-1)
        # f / (f + i) = σ(log f - log i), which does not divide by 0.
        return torch.sigmoid(nn.functional.logsigmoid(f) - nn.functional.logsigmoid(i)), positive(n)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        kept, n = self.share_and_candidate(x)
        h = kept * state + (1 - kept) * n
        return h, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """With a parallel scan."""
        kept, n = self.share_and_candidate(x)
        outputs = parallel_scan(kept, (1 - kept) * n, self.initial_state(x) if state is None else state)
        return outputs, outputs[:, -1]
