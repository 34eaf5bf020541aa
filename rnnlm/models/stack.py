"""A stack of recurrent layers. The module is copied into every bundle, so it imports only torch.

Shapes: batch b, time t, layers L, hidden size H, state size S.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from .cell import Cell

# The constant by which layer-normalized inputs are multiplied, so that the inputs of tanh are in its linear part. It is
# not included in the learned gains, because Adam's steps have about the same size for all weights, and would soon make
# small gains much larger.
NORMALIZED_STD = 0.2


class Stack(nn.Module):
    """A stack in which each layer reads the output of the layer below at the same time step.

    With `residual`, all layers above the first have pre-norm residual connections: their input is layer-normalized (Ba,
    Kiros and Hinton 2016), and their output, multiplied by branch_scale, is added to the input (He et al. 2016).

    With `normalizes_output`, the output of the top layer is RMS-normalized. This is used for blocks that have their own
    residual connections.

    Two backends compute the same function. `loop` calls step() of each cell for every time step and defines the result;
    `fused` calls sequence() of each cell.
    """

    cells: Sequence[Cell]  # The layers from bottom to top.
    # The normalizations of the inputs of all layers except the first one, or an empty list without `residual`.
    norms: Sequence[nn.LayerNorm]

    def __init__(
        self,
        cells: Sequence[Cell],
        backend: str = "fused",
        residual: bool = False,
        branch_scale: float = 1.0,
        normalizes_output: bool = False,
    ) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)  # type: ignore[assignment]
        self.hidden_size, self.state_size = cells[0].hidden_size, cells[0].state_size
        norms = [nn.LayerNorm(self.hidden_size, bias=False) for _ in cells[1:] if residual]
        self.norms = nn.ModuleList(norms)  # type: ignore[assignment]
        self.output_norm = nn.RMSNorm(self.hidden_size, eps=1e-6) if normalizes_output else nn.Identity()
        self.backend = backend
        self.residual = residual
        self.branch_scale = branch_scale

    def initial_state(self, rows: int) -> Tensor:
        """Return a zero state, (rows, L, S)."""
        return next(chain(self.parameters(), self.buffers())).new_zeros(rows, len(self.cells), self.state_size)

    def layer_input(self, layer: int, below: Tensor) -> Tensor:
        """Return the input of a layer's cell.

        `below`, (…, H), is the output of the layer below, or x for the first layer.
        """
        return NORMALIZED_STD * self.norms[layer - 1](below) if self.residual and layer else below

    def layer_output(self, layer: int, below: Tensor, output: Tensor) -> Tensor:
        """Return the output of a layer, (…, H), given the output of its cell.

        `below` is the output of the layer below, as in layer_input().
        """
        return below + self.branch_scale * output if self.residual and layer else output

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute one time step.

        Return the output of the top layer, the outputs of all cells (b, L, H), and the new state.

        `x` has shape (b, input) and `state` has shape (b, L, S).
        """
        outputs, states = [], []
        for layer, (cell, before) in enumerate(zip(self.cells, state.unbind(dim=1), strict=True)):
            output, after = cell.step(self.layer_input(layer, x), before)
            x = self.layer_output(layer, x, output)
            outputs.append(output)
            states.append(after)
        return self.output_norm(x), torch.stack(outputs, dim=1), torch.stack(states, dim=1)

    def forward(
        self,
        x: Tensor,
        state: Tensor | None = None,
        mask: Tensor | None = None,
        between: Sequence[Tensor] = (),
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of the top layer (b, t, H) and the last state (b, L, S).

        Args:
            x: The inputs, (b, t, input).
            state: The initial state, (b, L, S). If None, the state is zero.
            mask: The mask, (b, t), is 0 at padding, where the state does not change.
            between: Dropout masks, (b, 1, H), for the inputs of layers above the first. If empty, nothing is dropped.
        """
        if mask is not None and bool(mask.all()):
            mask = None
        lasts = []
        for layer, cell in enumerate(self.cells):
            initial = None if state is None else state[:, layer]
            cell_input = self.layer_input(layer, x)
            if layer and between:
                cell_input = cell_input * between[layer - 1]
            if self.backend == "loop" or mask is not None:  # The loop is used, because only it supports masks.
                outputs, last = cell.loop(cell_input, initial, mask)
            else:
                outputs, last = cell.sequence(cell_input, initial)
            if self.residual:
                outputs = outputs.to(x.dtype)  # The sum of the layer's input and output is float32.
            x = self.layer_output(layer, x, outputs)
            lasts.append(last)
        return self.output_norm(x), torch.stack(lasts, dim=1)
