"""The long short-term memory, with the equations of torch.nn.LSTM. The module imports only torch.

Sources: Hochreiter and Schmidhuber 1997; Gers et al. 2000 for the forget gate.
"""

import torch
from torch import Tensor, nn

from .cell import Cell, InitialWeights, kernel_weights


class LSTMCell(Cell):
    """An LSTM. The state is h and the memory c side by side, (b, 2H); the output is h.

        i = σ(x W_i + h U_i + b_i)
        f = σ(x W_f + h U_f + b_f)
        g = tanh(x W_g + h U_g + b_g)
        o = σ(x W_o + h U_o + b_o)
        c' = f ⊙ c + i ⊙ g
        h' = o ⊙ tanh(c')

    W (input, 4H), U (H, 4H) and b (4H,) contain i, f, g and o side by side.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(hidden_size, state_size=2 * hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, 4 * hidden_size))
        self.U = nn.Parameter(torch.empty(hidden_size, 4 * hidden_size))
        self.b = nn.Parameter(torch.zeros(4 * hidden_size))

    def initialize(self, weights: InitialWeights) -> None:
        """Initialize the weights as Cell does, but set the bias of the forget gate to 1 (Jozefowicz et al. 2015)."""
        super().initialize(weights)
        self.b.chunk(4)[1].fill_(1.0)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = (x @ self.W + h @ self.U + self.b).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        state = torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)
        return state[:, : self.hidden_size], state

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute all time steps with torch's kernel."""
        no_bias = torch.zeros_like(self.b)  # The second bias is zero, because torch's kernel adds two biases.
        weights = kernel_weights(self.W, self.U, self.b, no_bias)
        before = (self.initial_state(x) if state is None else state)[None].chunk(2, dim=-1)
        h, c = (part.contiguous() for part in before)
        # The arguments after the weights are: biases, layers, dropout, training, bidirectional, batch first. The kernel
        # expects h and c in the shape (1, b, H).
        outputs, h, c = torch.lstm(x, (h, c), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
        return outputs, torch.cat([h[0], c[0]], dim=-1)
