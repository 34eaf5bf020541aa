"""The base class of layers with residual connections. The module imports only torch, because bundles contain it."""

import torch
from torch import Tensor, nn

from .cell import Cell, InitialWeights, product


class Block(Cell):
    """A layer that computes y = x + mix(norm(x)) and returns y + feed_forward(norm(y)).

    Only `mix` reads other time steps; subclasses define it. The inputs of both parts are RMS-normalized (Zhang and
    Sennrich 2019), and the feed-forward layer is gated (Shazeer 2020):

        norm(x) = gain ⊙ x / √(mean of x² + 1e-6)                               (H,)
        feed_forward(x) = (silu(x W_gate) ⊙ x W_up) W_down                       silu(a) = a σ(a)

    W_gate and W_up have shape (H, F) and W_down has shape (F, H), where F is feed_forward_size(H). If the size of the
    input is not H, the input is first projected to H without a bias.
    """

    def __init__(self, input_size: int, hidden_size: int, state_size: int) -> None:
        super().__init__(hidden_size, state_size)
        inner = feed_forward_size(hidden_size)
        self.input = nn.Identity() if input_size == hidden_size else Linear(input_size, hidden_size)
        self.feed_forward_norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.gate, self.up = Linear(hidden_size, inner), Linear(hidden_size, inner)
        self.down = Linear(inner, hidden_size)

    def initialize(self, weights: InitialWeights) -> None:
        """Draw all matrices.

        Those whose products are added to the residual are divided by √(2 L), as in GPT-2 (Radford et al. 2019).
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                weights.fill(module.weight, module.in_features)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.RMSNorm):
                nn.init.ones_(module.weight)
        for name, matrix in self.named_parameters():
            if name in ("output.weight", "cell.output.weight", "down.weight"):
                matrix.div_((2 * weights.layers) ** 0.5)

    def add_feed_forward(self, y: Tensor) -> Tensor:
        """Return y + feed_forward(norm(y)) for y of shape (…, H)."""
        normalized = self.feed_forward_norm(y)
        return y + self.down(nn.functional.silu(self.gate(normalized)) * self.up(normalized))


class Linear(nn.Linear):
    """The product x Wᵀ without a bias, computed in `precision` during training (see Cell)."""

    precision: torch.dtype | None = None

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight.t(), self.precision)


def feed_forward_size(hidden_size: int) -> int:
    """Return 8/3 of hidden_size, rounded up to a multiple of 8.

    With this size, the three matrices of a gated layer have as many weights as two matrices with 4 · hidden_size units.
    """
    return -(-hidden_size // 3) * 8
