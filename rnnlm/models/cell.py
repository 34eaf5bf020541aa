"""The interface of all recurrent layers. The module is copied into every bundle, so it imports only torch.

Shapes: batch b, time t, hidden size H, state size S.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class InitialWeights:
    """The methods by which a layer draws its weights (`model.initialization`, `model.recurrent_initialization`)."""

    matrices: str  # The method "xavier" (Glorot and Bengio 2010) or "he" (He et al. 2015).
    recurrent: str
    layers: int  # The number of layers in the whole stack.
    generator: torch.Generator

    def fill(self, matrix: Tensor, inputs: int) -> None:
        """Draw a matrix in place. Its shape is (inputs, units), or (units, inputs) as in torch's Linear."""
        if self.matrices == "he":
            matrix.copy_(torch.randn(matrix.shape, generator=self.generator) * (2 / inputs) ** 0.5)
        else:
            nn.init.xavier_uniform_(matrix, generator=self.generator)


class Cell(nn.Module):
    """One layer of a model.

    `step` defines the layer; `sequence` computes all time steps, with the same results but faster.

    The state is a row of S numbers for each text in the batch. The meaning of these numbers depends on the kind of
    layer. At the beginning of a text they are 0.
    """

    # The precision of the matrix products with the inputs of all time steps. None means the precision of the weights.
    precision: torch.dtype | None = None

    def __init__(self, hidden_size: int, state_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.state_size = state_size

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output (b, H) and the new state (b, S) of one time step.

        `x` has shape (b, input) and `state` has shape (b, S).
        """
        raise NotImplementedError

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the outputs (b, t, H) and the last state (b, S) of all time steps.

        `x` has shape (b, t, input) and `state` has shape (b, S). If the state is None, all texts begin with a zero
        state.
        """
        return self.loop(x, state)

    def loop(self, x: Tensor, state: Tensor | None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Compute sequence() by calling step() for each time step.

        The mask has shape (b, t) and is 0 at padding, where the state does not change.
        """
        state = self.initial_state(x) if state is None else state
        outputs = []
        for time in range(x.shape[1]):
            output, new = self.step(x[:, time], state)
            state = new if mask is None else torch.where(mask[:, time, None].bool(), new, state)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state

    def initial_state(self, x: Tensor) -> Tensor:
        """Return a zero state, (b, S), for the inputs x."""
        return x.new_zeros(len(x), self.state_size)

    def initialize(self, weights: InitialWeights) -> None:
        """Set the initial weights of a layer that has only W, U and biases.

        W is drawn with each gate as a separate matrix, and U with each gate orthogonal (Saxe et al. 2014). Biases are
        0. Raise NotImplementedError if the layer has no W or has further matrices.
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
                f"its weights cannot be initialized: it has {', '.join(others)} besides W, U and biases"
            )
        for bias in parameters.values():
            nn.init.zeros_(bias)

    def recurrent_weights(self) -> dict[str, Tensor]:
        """Return the parameters that multiply the state, by name. Recurrent dropout applies to them."""
        return {name: weight for name, weight in self.named_parameters() if name == "U"}


def kernel_weights(*weights: Tensor) -> list[Tensor]:
    """Return the transposed matrices and the biases of a cell, in the order that torch's recurrent kernels expect.

    cuDNN expects the weights in contiguous memory one after the other. On a CPU, any layout is allowed.
    """
    transposed = [weight.t() for weight in weights]  # For a bias, t() returns the bias itself.
    if not weights[0].is_cuda:
        return transposed
    flat = torch.cat([weight.flatten() for weight in transposed])
    parts = flat.split([weight.numel() for weight in transposed])
    return [part.view(weight.shape) for part, weight in zip(parts, transposed, strict=True)]


def product(x: Tensor, W: Tensor, precision: torch.dtype | None) -> Tensor:
    """Return the product x W, (…, m), of x (…, n) and W (n, m).

    During training, the product and its gradient are computed in `precision`.
    """
    used = used_precision(x, precision)
    return x @ W if used is None else (x.to(used) @ W.to(used)).to(x.dtype)


def used_precision(x: Tensor, precision: torch.dtype | None) -> torch.dtype | None:
    """Return `precision` during training, and None otherwise, which means the precision of the weights."""
    return precision if x.device.type in ("cpu", "cuda") and torch.is_grad_enabled() else None
