"""The gated recurrent unit (Cho et al. 2014), with the equations of torch.nn.GRU. The module imports only torch."""

import torch
from torch import Tensor, nn

from .cell import Cell, kernel_weights


class GRUCell(Cell):
    """A GRU whose state and output are both h. r is the reset gate, and z is the update gate.

        r = σ(x W_r + h U_r + b_r)
        z = σ(x W_z + h U_z + b_z)
        n = tanh(x W_n + b_n + r ⊙ (h U_n + c))
        h' = (1 - z) ⊙ n + z ⊙ h

    W (input, 3H), U (H, 3H) and b (3H,) contain r, z and n side by side. c has shape (H,).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, 3 * hidden_size))
        self.U = nn.Parameter(torch.empty(hidden_size, 3 * hidden_size))
        self.b = nn.Parameter(torch.zeros(3 * hidden_size))
        self.c = nn.Parameter(torch.zeros(hidden_size))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x_r, x_z, x_n = (x @ self.W + self.b).chunk(3, dim=-1)
        h_r, h_z, h_n = (state @ self.U).chunk(3, dim=-1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * (h_n + self.c))
        h = (1 - z) * n + z * state
        return h, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute all time steps with torch's kernel."""
        # The second bias of the kernel is c for n, and 0 for the gates r and z.
        c = torch.cat([torch.zeros_like(self.b[self.hidden_size :]), self.c])
        weights = kernel_weights(self.W, self.U, self.b, c)
        h = self.initial_state(x) if state is None else state
        # The arguments after the weights are: biases, layers, dropout, training, bidirectional, batch first. The kernel
        # expects the state in the shape (1, b, H).
        outputs, last = torch.gru(x, h[None].contiguous(), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
        return outputs, last[0]
