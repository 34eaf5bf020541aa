"""The xLSTM (Beck et al. 2024), in which mLSTM and sLSTM layers alternate, each in a block with residual connections.

The blocks are those of xLSTM 7B (Beck et al. 2025) and of transformers: Transformer blocks with a cell instead of
attention. There is no convolution before the cell. The module imports only torch.

Shapes: batch b, time t, hidden size H, state size S.
"""

import torch
from torch import Tensor, nn

from .block import Block
from .cell import InitialWeights
from .mlstm import MLSTMCell
from .slstm import SLSTMCell

CELLS = (MLSTMCell, SLSTMCell)  # The cells of the layers in alternation, beginning with the lowest layer.


class XLSTMBlock(Block):
    """The block y = x + cell(norm(x)), output = y + feed_forward(norm(y)).

    The lowest layer is an mLSTM, the next one an sLSTM, and so on; the paper calls this xLSTM[1:1]. All layers of a
    stack have a state of the same size S, which is the larger of N (d² + d + 1) and 4H, with N heads of d = H / N
    units. The smaller state is padded with zeros.
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int, layer: int) -> None:
        with torch.device("meta"):  # On the device "meta", the cells have sizes but no weights.
            state_size = max(cell(hidden_size, heads).state_size for cell in CELLS)
        super().__init__(input_size, hidden_size, state_size)
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.cell = CELLS[layer % len(CELLS)](hidden_size, heads)

    def initialize(self, weights: InitialWeights) -> None:
        super().initialize(weights)
        self.cell.initialize(weights)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x = self.input(x)
        output, state = self.cell.step(self.norm(x), state[:, : self.cell.state_size])
        return self.add_feed_forward(x + output), self.padded(state)

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        x = self.input(x)
        outputs, last = self.cell.sequence(self.norm(x), None if state is None else state[:, : self.cell.state_size])
        return self.add_feed_forward(x + outputs), self.padded(last)

    def padded(self, state: Tensor) -> Tensor:
        """Pad the cell's state with zeros to the shape (b, S)."""
        return nn.functional.pad(state, (0, self.state_size - self.cell.state_size))

    def recurrent_weights(self) -> dict[str, Tensor]:
        return {f"cell.{name}": weight for name, weight in self.cell.recurrent_weights().items()}
