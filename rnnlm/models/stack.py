"""A stack of recurrent layers. Imports only torch: part of every bundle.

Shapes: batch b, time t, layers L, hidden size H, state size S.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from .cell import Cell

# Scale of layer-normalized inputs, so that tanh starts in its linear part. It is separate from the learned gains, which
# would soon outgrow it: Adam changes all weights by steps of about the same size.
NORMALIZED_STD = 0.2


class Stack(nn.Module):
    """Each layer reads the output of the layer below at the same time step.

    With `residual`, layers above the first have pre-norm residual connections: they read their input layer-normalized
    (Ba, Kiros and Hinton 2016) and add their output, times branch_scale, to it (He et al. 2016).

    normalizes_output: the top layer's output is RMS-normalized, after blocks with residual connections of their own.

    Two backends compute the same function: `loop` is the definition, step by step; `fused` uses each cell's sequence().
    """

    cells: Sequence[Cell]  # bottom to top
    norms: Sequence[nn.LayerNorm]  # of the inputs of layers above the first; empty without `residual`

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
        """Return zeros, (rows, L, S)."""
        return next(chain(self.parameters(), self.buffers())).new_zeros(rows, len(self.cells), self.state_size)

    def layer_input(self, layer: int, below: Tensor) -> Tensor:
        """Return the input of the layer's cell. below: (…, H), output of the layer below, or x for the first layer."""
        return NORMALIZED_STD * self.norms[layer - 1](below) if self.residual and layer else below

    def layer_output(self, layer: int, below: Tensor, output: Tensor) -> Tensor:
        """Return the output of the layer, (…, H), from that of its cell, (…, H). below: as in layer_input."""
        return below + self.branch_scale * output if self.residual and layer else output

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute one time step.

        x: (b, input), state: (b, L, S) → top output, all cells' outputs (b, L, H), new state.
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
        """Return the top layer's outputs (b, t, H) and the last state (b, L, S). x: (b, t, input).

        state: (b, L, S) or None for zeros.

        mask: (b, t), 0 at padding, where the state stays the same.
        between: dropout masks (b, 1, H) for the inputs of layers above the first; empty: none.
        """
        if mask is not None and bool(mask.all()):
            mask = None
        lasts = []
        for layer, cell in enumerate(self.cells):
            initial = None if state is None else state[:, layer]
            cell_input = self.layer_input(layer, x)
            if layer and between:
                cell_input = cell_input * between[layer - 1]
            if self.backend == "loop" or mask is not None:  # only the loop supports masks
                outputs, last = cell.loop(cell_input, initial, mask)
            else:
                outputs, last = cell.sequence(cell_input, initial)
            if self.residual:
                outputs = outputs.to(x.dtype)  # the residual sum stays float32
            x = self.layer_output(layer, x, outputs)
            lasts.append(last)
        return self.output_norm(x), torch.stack(lasts, dim=1)
