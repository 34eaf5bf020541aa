"""The sLSTM, an LSTM with an exponential input gate (Beck et al. 2024, "xLSTM: Extended Long Short-Term Memory", 2.2).

Shapes: batch b, time t, hidden size H, heads N, d = H / N. The module imports only torch.
"""

import torch
from torch import Tensor, nn

from .cell import Cell, InitialWeights, product
from .mlstm import FORGET_BIASES


class SLSTMCell(Cell):
    """An sLSTM. The memory c is divided by n, the sum of the input gates. Units read only the state of their own head.

        i = exp(x W_i + h U_i + b_i)
        f = σ(x W_f + h U_f + b_f)
        z = tanh(x W_z + h U_z + b_z)
        o = σ(x W_o + h U_o + b_o)
        c' = f ⊙ c + i ⊙ z
        n' = f ⊙ n + i
        h' = o ⊙ c' / n'
        output = norm(h')

    W (H, 4H), U (N, d, 4d) and b (4H,) contain i, f, z and o side by side. Here norm is the layer normalization of each
    head. Because the exponential could overflow, the state contains h, c / exp(m), n / exp(m) and m, (b, 4H), where

        m' = max(log f + m, log i)

    The outputs do not depend on m, so m gets no gradient.
    """

    def __init__(self, hidden_size: int, heads: int) -> None:
        super().__init__(hidden_size, state_size=4 * hidden_size)
        self.heads, self.size = heads, hidden_size // heads
        self.W = nn.Parameter(torch.empty(hidden_size, 4 * hidden_size))
        self.U = nn.Parameter(torch.empty(heads, self.size, 4 * self.size))
        self.b = nn.Parameter(torch.zeros(4 * hidden_size))
        self.gain = nn.Parameter(torch.ones(hidden_size))

    def initialize(self, weights: InitialWeights) -> None:
        """Draw the part of U for each gate and head as an orthogonal matrix, and set the biases of the forget gates.

        The biases range from those of units that forget early to those of units that forget late.
        """
        nn.init.ones_(self.gain)
        for gate in self.W.chunk(4, dim=1):
            weights.fill(gate, len(gate))
        for head in self.U:
            for gate in head.chunk(4, dim=1):
                nn.init.orthogonal_(gate, generator=weights.generator)
        nn.init.zeros_(self.b)
        self.b.chunk(4)[1].copy_(torch.linspace(*FORGET_BIASES, self.size).repeat(self.heads))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h, c, n, m = self.by_heads(state)
        products = (x @ self.W + self.b).unflatten(-1, (4, self.heads, self.size))
        h, c, n, m = advance(products.permute(2, 0, 1, 3).flatten(-2), self.U, h, c, n, m)
        return self.normalized(h.transpose(0, 1)), torch.stack([h, c, n, m]).permute(2, 0, 1, 3).flatten(1)

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the time steps one by one, because the gates depend on h.

        The products with x are computed for all time steps at once.
        """
        h, c, n, m = self.by_heads(self.initial_state(x) if state is None else state)
        products = product(x, self.W, self.precision) + self.b
        products = products.unflatten(-1, (4, self.heads, self.size))  # (b, t, 4, N, d)
        states = []
        for inputs in products.permute(1, 3, 0, 2, 4).flatten(-2):  # (N, b, 4d)
            h, c, n, m = advance(inputs, self.U, h, c, n, m)
            states.append(h)
        outputs = self.normalized(torch.stack(states).permute(2, 0, 1, 3))
        return outputs, torch.stack([h, c, n, m]).permute(2, 0, 1, 3).flatten(1)

    def by_heads(self, state: Tensor) -> tuple[Tensor, ...]:
        """Split a state, (b, 4H), into h, c, n and m, each of shape (N, b, d)."""
        h, c, n, m = state.unflatten(-1, (4, self.heads, self.size)).permute(1, 2, 0, 3)
        # At the beginning of a text n is 0. With m = -inf, m' becomes log i, so that n' is not close to 0.
        return h, c, n, m.masked_fill(n == 0, float("-inf")).detach()

    def normalized(self, h: Tensor) -> Tensor:
        """Normalize the output of each head, (…, N, d), and return it as (…, H)."""
        return nn.functional.layer_norm(h, (self.size,), eps=1e-6).flatten(-2) * self.gain


def advance(products: Tensor, U: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    """Return h, c, n and m after one time step. `products`, (N, b, 4d), is x W + b, arranged by heads."""
    log_i, f, z, o = torch.baddbmm(products, h, U).chunk(4, dim=-1)
    kept = nn.functional.logsigmoid(f) + m
    m = torch.maximum(kept, log_i).detach()
    f, i = torch.exp(kept - m), torch.exp(log_i - m)
    c, n = f * c + i * torch.tanh(z), f * n + i
    return torch.sigmoid(o) * c / n, c, n, m
