"""The Elman cell (Elman 1990): h' = tanh(x W + h U + b).

Shapes: batch b, time t, hidden size H.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .cell import Cell, InitialWeights, kernel_weights, used_precision
from .diagonal_recurrence import compute_deltas, compute_states, has_kernel
from .full_recurrence import FullRecurrence, has_full_kernel


class ElmanCell(Cell):
    """h' = tanh(x W + h U + b). The state and the output are both h.

    W: (input, H); U: (H, H), or (H,) if diagonal: then each unit reads only its own previous state (Li et al. 2018).
    nonlinearity: tanh, relu or sigmoid.
    """

    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "tanh", diagonal: bool = False) -> None:
        super().__init__(hidden_size, state_size=hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, hidden_size))
        self.U = nn.Parameter(torch.empty(hidden_size) if diagonal else torch.empty(hidden_size, hidden_size))
        self.b = nn.Parameter(torch.zeros(hidden_size))
        self.nonlinearity = nonlinearity

    def initialize(self, weights: InitialWeights) -> None:
        """Draw U as weights.recurrent says, and set b to 0.

        identity (Le, Jaitly and Hinton 2015), orthogonal (Saxe et al. 2014), xavier, or spread: a diagonal from 0 to 1,
        from units that forget at once to units that never do. leaky: initial_leak() times the identity. A diagonal U
        needs identity, leaky or spread.
        """
        weights.fill(self.W, len(self.W))
        if weights.recurrent == "xavier":
            nn.init.xavier_uniform_(self.U, generator=weights.generator)
        elif weights.recurrent == "orthogonal":
            nn.init.orthogonal_(self.U, generator=weights.generator)
        else:
            units = self.hidden_size
            diagonal = torch.linspace(0.0, 1.0, units) if weights.recurrent == "spread" else torch.ones(units)
            self.U.copy_(diagonal.diag() if self.U.ndim == 2 else diagonal)
        if weights.recurrent == "leaky":
            self.U.mul_(initial_leak(self.hidden_size, weights.layers))
        nn.init.zeros_(self.b)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """Compute h', (b, H), of one time step. x: (b, input), h: (b, H)."""
        recurrent = h @ self.U if self.U.ndim == 2 else h * self.U
        return getattr(torch, self.nonlinearity)(x @ self.W + recurrent + self.b)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h = self(x, state)
        return h, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Use the handwritten gradient for a diagonal layer, and for training on a CPU or in bfloat16 on a GPU.

        Otherwise use torch's kernel. In bfloat16 on a GPU the states are bfloat16, too.
        """
        state = self.initial_state(x) if state is None else state
        weights, precision = (self.W, self.U, self.b), used_precision(x, self.precision)
        if torch.is_grad_enabled() and has_full_kernel(x, self.U, self.nonlinearity, precision):
            states, last = FullRecurrence.apply(x, state, *weights, self.nonlinearity, precision)
            return states, last
        x = x.to(self.b.dtype)  # the layer below may have used the kernel
        if self.U.ndim == 1 or (torch.is_grad_enabled() and x.device.type == "cpu"):
            states, last = BackpropagationThroughTime.apply(x, state, *weights, self.nonlinearity, precision)
            return states, last
        if self.nonlinearity == "sigmoid":  # torch has no kernel for it
            return super().sequence(x, state)
        return self.kernel(x, state)

    def kernel(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Run torch's kernel, which takes two biases; the second one is zero."""
        weights = kernel_weights(self.W, self.U, self.b, torch.zeros_like(self.b))
        kernel = getattr(torch, f"rnn_{self.nonlinearity}")
        # arguments: biases, layers, dropout, training, bidirectional, batch first; state is (1, b, H) there
        states, last = kernel(x, state[None].contiguous(), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
        return states, last[0]

    def recurrent(self) -> Tensor:
        """Return U as a matrix, (H, H)."""
        return self.U if self.U.ndim == 2 else self.U.diag()


def initial_leak(units: int, layers: int) -> float:
    """Share of its state that a layer keeps at first.

    With all of it, as from the identity, units saturate before they have learnt what to forget, in wide layers and in
    stacks sooner (benchmarks/stacks.py).
    """
    return 0.9 ** max(1.0, units / 256) if layers == 1 else 0.5


SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda h: 1 - h.square(),
    "relu": lambda h: h.gt(0).to(h.dtype),
    "sigmoid": lambda h: h * (1 - h),
}


class BackpropagationThroughTime(torch.autograd.Function):
    """One layer over all time steps with a handwritten gradient.

    x: (b, t, input), state: (b, H), W, U and b of the cell → states (b, t, H), last state (b, H). Only the recurrence
    is sequential; every other gradient is one matrix product over all b·t steps, in `precision`; None: as W.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        state: Tensor,
        W: Tensor,
        U: Tensor,
        b: Tensor,
        nonlinearity: str,
        precision: torch.dtype | None,
    ) -> tuple[Tensor, Tensor]:
        rows, steps, size = *x.shape[:2], len(U)
        precision = precision or W.dtype
        inputs = x.transpose(0, 1).flatten(0, 1).to(precision)  # (t·b, input)
        projected = (inputs @ W.to(precision)).to(b.dtype).add_(b).view(steps, rows, size)
        states = projected.new_empty(steps + 1, rows, size)  # h before each step, and after the last
        states[0] = state
        if U.ndim == 1 and has_kernel(states, nonlinearity):
            compute_states(projected, U, states, nonlinearity)
        else:
            activate = getattr(Tensor, f"{nonlinearity}_")
            add_product = torch.addmm if U.ndim == 2 else torch.addcmul
            for t in range(steps):
                activate(add_product(projected[t], states[t], U, out=states[t + 1]))
        ctx.save_for_backward(inputs, states, W, U)
        ctx.nonlinearity = nonlinearity
        return states[1:].transpose(0, 1), states[-1].clone()

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, states, W, U = ctx.saved_tensors
        states_grad, last_grad = output_grads[0].transpose(0, 1), output_grads[1]
        deltas = torch.empty_like(states[1:])  # ∂loss/∂a of each step, with a = x W + h U + b
        if U.ndim == 1 and has_kernel(states, ctx.nonlinearity):
            states_grad = states_grad.clone(memory_format=torch.contiguous_format)
            states_grad[-1] += last_grad
            compute_deltas(states_grad, U, states, deltas, ctx.nonlinearity)
        else:
            slopes = SLOPES[ctx.nonlinearity](states[1:])  # ∂h'/∂a as a function of h'
            add_product = torch.addmm if U.ndim == 2 else torch.addcmul
            torch.add(states_grad[-1], last_grad, out=deltas[-1]).mul_(slopes[-1])
            for t in reversed(range(len(deltas) - 1)):
                add_product(states_grad[t], deltas[t + 1], U.t(), out=deltas[t]).mul_(slopes[t])
        flat_deltas = deltas.flatten(0, 1).to(inputs.dtype)  # (t·b, H)
        if U.ndim == 2:
            state_grad = deltas[0] @ U.t()
            U_grad = (states[:-1].flatten(0, 1).to(inputs.dtype).t() @ flat_deltas).to(U.dtype)
        else:
            state_grad = deltas[0] * U
            U_grad = (states[:-1] * deltas).sum(dim=(0, 1))
        x_grad = (flat_deltas @ W.t().to(inputs.dtype)).to(W.dtype)
        return (
            x_grad.view(*deltas.shape[:2], -1).transpose(0, 1),
            state_grad,
            (inputs.t() @ flat_deltas).to(W.dtype),
            U_grad,
            deltas.sum(dim=(0, 1)),
            None,
            None,
        )
