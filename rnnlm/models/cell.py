"""The interface of every recurrent layer. Imports only torch: part of every bundle.

Shapes: batch b, time t, hidden size H, state size S.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class InitialWeights:
    """How a layer's weights are drawn: `model.initialization` and `model.recurrent_initialization`."""

    matrices: str  # xavier (Glorot and Bengio 2010) or he (He et al. 2015)
    recurrent: str
    layers: int  # of the whole stack
    generator: torch.Generator

    def fill(self, matrix: Tensor, inputs: int) -> None:
        """Draw the matrix in place. It is (inputs, units) or, as torch's Linear has it, (units, inputs)."""
        if self.matrices == "he":
            matrix.copy_(torch.randn(matrix.shape, generator=self.generator) * (2 / inputs) ** 0.5)
        else:
            nn.init.xavier_uniform_(matrix, generator=self.generator)


class Cell(nn.Module):
    """One layer of a model. `step` is its definition; `sequence` computes the same for all time steps, faster.

    The state is one row of S numbers for each text in the batch; their meaning depends on the kind. Texts begin at 0.
    """

    precision: torch.dtype | None = None  # of `product` with the inputs of all time steps; None: as the weights

    def __init__(self, hidden_size: int, state_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.state_size = state_size

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute one time step: output (b, H) and new state (b, S). x: (b, input), state: (b, S)."""
        raise NotImplementedError

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute all time steps: outputs (b, t, H) and last state (b, S). x: (b, t, input), state: (b, S).

        Without a state the texts begin at zero.
        """
        return self.loop(x, state)

    def loop(self, x: Tensor, state: Tensor | None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Compute sequence() step by step. mask: (b, t), 0 at padding, where the state stays the same."""
        state = self.initial_state(x) if state is None else state
        outputs = []
        for time in range(x.shape[1]):
            output, new = self.step(x[:, time], state)
            state = new if mask is None else torch.where(mask[:, time, None].bool(), new, state)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state

    def initial_state(self, x: Tensor) -> Tensor:
        """Return zeros, (b, S), for the inputs x."""
        return x.new_zeros(len(x), self.state_size)

    def initialize(self, weights: InitialWeights) -> None:
        """Fill W with each gate as a matrix of its own, U with each gate orthogonal (Saxe et al. 2014), biases with 0.

        NotImplementedError if there are other matrices, or if there is no W.
        """
        parameters = dict(self.named_parameters())
        if not parameters:
            return
        if "W" not in parameters:
            raise NotImplementedError("its weights cannot be initialized: it has no W, U and biases")
        for gate in parameters.pop("W").split(self.hidden_size, dim=1):
            weights.fill(gate, len(gate))
        if "U" in parameters:
            for gate in parameters.pop("U").split(self.hidden_size, dim=1):
                nn.init.orthogonal_(gate, generator=weights.generator)
        if others := [name for name, parameter in parameters.items() if parameter.ndim > 1]:
            raise NotImplementedError(
                f"its weights cannot be initialized: it has {', '.join(others)} beside W, U and biases"
            )
        for bias in parameters.values():
            nn.init.zeros_(bias)

    def recurrent_weights(self) -> dict[str, Tensor]:
        """Return the parameters that multiply the state by name, for recurrent dropout: U, if the layer has one."""
        return {name: weight for name, weight in self.named_parameters() if name == "U"}


def kernel_weights(*weights: Tensor) -> list[Tensor]:
    """Return a cell's matrices, transposed, and its biases, in the order of torch's recurrent kernels.

    cuDNN wants them to follow each other in memory; on a CPU any layout will do.
    """
    transposed = [weight.t() for weight in weights]  # a vector stays as it is
    if not weights[0].is_cuda:
        return transposed
    flat = torch.cat([weight.flatten() for weight in transposed])
    parts = flat.split([weight.numel() for weight in transposed])
    return [part.view(weight.shape) for part, weight in zip(parts, transposed, strict=True)]


def product(x: Tensor, W: Tensor, precision: torch.dtype | None) -> Tensor:
    """Return x W, (…, m). x: (…, n), W: (n, m).

    While training, the product and its gradient are computed in `precision`.
    """
    used = used_precision(x, precision)
    return x @ W if used is None else (x.to(used) @ W.to(used)).to(x.dtype)


def used_precision(x: Tensor, precision: torch.dtype | None) -> torch.dtype | None:
    """Return the precision of products with x.

    While training the given one, else None, which means the weights' own.
    """
    return precision if x.device.type in ("cpu", "cuda") and torch.is_grad_enabled() else None
