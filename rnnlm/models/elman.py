"""The Elman cell (Elman 1990): h' = tanh(x W + h U + b).

Shapes: batch b, time t, hidden size H.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .cell import Cell, InitialWeights, kernel_weights, used_precision
from .diagonal_recurrence import compute_deltas, compute_states, has_kernel
from .full_recurrence import FullRecurrence, has_full_kernel


class ElmanCell(Cell):
    """The Elman cell, h' = tanh(x W + h U + b). The state and the output are both h.

    W has shape (input, H). U has shape (H, H), or (H,) if it is diagonal. With a diagonal U each unit reads only its
    own previous state (Li et al. 2018). The nonlinearity may also be relu or sigmoid instead of tanh.
    """

    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "tanh", diagonal: bool = False) -> None:
        super().__init__(hidden_size, state_size=hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, hidden_size))
        self.U = nn.Parameter(torch.empty(hidden_size) if diagonal else torch.empty(hidden_size, hidden_size))
        self.b = nn.Parameter(torch.zeros(hidden_size))
        self.nonlinearity = nonlinearity

    def initialize(self, weights: InitialWeights) -> None:
        """Draw W, set b to 0, and draw U by the method that weights.recurrent names.

        The methods are identity (Le, Jaitly and Hinton 2015), orthogonal (Saxe et al. 2014), xavier, spread and leaky.
        `spread` is a diagonal from 0 to 1: some units forget their state at once, others never do. `leaky` is the
        identity times initial_leak(). A diagonal U can only be initialized by identity, leaky or spread.
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
        """Return h', (b, H), after one time step. `x` has shape (b, input) and `h` has shape (b, H)."""
        recurrent = h @ self.U if self.U.ndim == 2 else h * self.U
        return getattr(torch, self.nonlinearity)(x @ self.W + recurrent + self.b)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h = self(x, state)
        return h, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute all time steps by the fastest implementation for this layer and device.

        A handwritten gradient is used for a diagonal layer, for training on a CPU, and for training in bfloat16 on a
        GPU. In all other cases torch's kernel is used. After training in bfloat16 on a GPU, the returned states are
        bfloat16, too.
        """
        state = self.initial_state(x) if state is None else state
        weights, precision = (self.W, self.U, self.b), used_precision(x, self.precision)
        if torch.is_grad_enabled() and has_full_kernel(x, self.U, self.nonlinearity, precision):
            states, last = FullRecurrence.apply(x, state, *weights, self.nonlinearity, precision)
            return states, last
        x = x.to(self.b.dtype)  # The input may be bfloat16, because it may be the output of another layer.
        if self.U.ndim == 1 or (torch.is_grad_enabled() and x.device.type == "cpu"):
            states, last = BackpropagationThroughTime.apply(x, state, *weights, self.nonlinearity, precision)
            return states, last
        if self.nonlinearity == "sigmoid":  # The loop is used, because torch has no kernel for the sigmoid.
            return super().sequence(x, state)
        return self.kernel(x, state)

    def kernel(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute all time steps by torch's kernel. The kernel expects two biases, so the second one is zero."""
        weights = kernel_weights(self.W, self.U, self.b, torch.zeros_like(self.b))
        kernel = getattr(torch, f"rnn_{self.nonlinearity}")
        # The arguments after the weights are: biases, layers, dropout, training, bidirectional, batch first. The kernel
        # expects the state in the shape (1, b, H).
        states, last = kernel(x, state[None].contiguous(), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
        return states, last[0]

    def recurrent(self) -> Tensor:
        """Return U as a matrix, (H, H), even if it is stored as a diagonal."""
        return self.U if self.U.ndim == 2 else self.U.diag()


def initial_leak(units: int, layers: int) -> float:
    """Return the fraction of its state that an untrained layer keeps at each step.

    If a layer kept its whole state, as with an identity matrix, its units would saturate before the layer has learned
    what to forget. Wide layers and stacks would saturate sooner (benchmarks/stacks.py).
    """
    return 0.9 ** max(1.0, units / 256) if layers == 1 else 0.5


SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda h: 1 - h.square(),
    "relu": lambda h: h.gt(0).to(h.dtype),
    "sigmoid": lambda h: h * (1 - h),
}


class BackpropagationThroughTime(torch.autograd.Function):
    """One Elman layer over all time steps, with a handwritten gradient.

    The inputs are x (b, t, input), the state (b, H), and the cell's W, U and b. The outputs are the states (b, t, H)
    and the last state (b, H). Only the recurrence is sequential; every other gradient is a single matrix product over
    all b · t steps. The products are computed in `precision`, or in the precision of W if it is None.
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
        # The state before each step and the state after the last one.
        states = projected.new_empty(steps + 1, rows, size)
        states[0] = state
        if U.ndim == 1 and has_kernel(states, nonlinearity):
            compute_states(projected, U, states, nonlinearity)
        else:
            activate = getattr(Tensor, f"{nonlinearity}_")
            add_product = Tensor.addmm_ if U.ndim == 2 else Tensor.addcmul_
            states[1:] = projected  # Copying all steps at once is faster than one by one.
            for before, after in itertools.pairwise(states):
                activate(add_product(after, before, U))
        ctx.save_for_backward(inputs, states, W, U)
        ctx.nonlinearity = nonlinearity
        return states[1:].transpose(0, 1), states[-1].clone()

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, states, W, U = ctx.saved_tensors
        states_grad, last_grad = output_grads[0].transpose(0, 1), output_grads[1]
        deltas = torch.empty_like(states[1:])  # ∂loss/∂a of each step, where a = x W + h U + b
        if U.ndim == 1 and has_kernel(states, ctx.nonlinearity):
            states_grad = states_grad.clone(memory_format=torch.contiguous_format)
            states_grad[-1] += last_grad
            compute_deltas(states_grad, U, states, deltas, ctx.nonlinearity)
        else:
            slopes = SLOPES[ctx.nonlinearity](states[1:])  # The derivative ∂h'/∂a, computed from h'.
            add_product = Tensor.addmm_ if U.ndim == 2 else Tensor.addcmul_
            deltas.copy_(states_grad)
            after = deltas[-1].add_(last_grad).mul_(slopes[-1])
            for before, slope in reversed([*zip(deltas[:-1], slopes[:-1], strict=True)]):
                after = add_product(before, after, U.t()).mul_(slope)
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
