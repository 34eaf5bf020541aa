"""The training of an Elman layer with a full matrix U on a GPU, with all time steps in one Triton kernel.

The module is copied into every bundle. Up to UNITS_OF_ONE_PROGRAM units, one program computes all time steps of a few
rows, and keeps U in its registers and shared memory. Up to MOST_UNITS units, several programs share the same rows. Each
program keeps some columns of U, and waits for the others after every time step. With more units, and in float32,
torch's kernel (cuDNN) is used. Shapes: batch b, time t, input size E, hidden size H.
"""

import functools
from typing import Any

import torch
from torch import Tensor

from .diagonal_recurrence import has_compiler
from .full_recurrence_kernels import triton

if triton is not None:
    from .full_recurrence_kernels import deltas_kernel, shared_deltas_kernel, shared_states_kernel, states_kernel

UNITS_OF_ONE_PROGRAM, MOST_UNITS = 256, 1_024
COLUMNS_AT_ONCE = 64  # The number of columns of U that each program keeps if several programs share the same rows.
# The largest number of states in a group of rows that several programs share. Each program reads all of them.
MOST_SHARED_STATES = 45_000
# The distance between two counters, in integers, which puts each counter into a separate cache line.
COUNTER_STRIDE = 32
PROGRAM_ROWS = 16  # The number of rows of one program, which is the smallest number that tensor cores multiply.
KERNEL_NONLINEARITIES = ("tanh", "relu", "sigmoid")


def has_full_kernel(x: Tensor, U: Tensor, nonlinearity: str, precision: torch.dtype | None) -> bool:
    """Return True if the kernels below can train the layer. `x` is its input, (b, t, E)."""
    known = nonlinearity in KERNEL_NONLINEARITIES and precision == torch.bfloat16
    fits = U.ndim == 2 and len(U) <= MOST_UNITS
    # The number of states is limited, because the kernels use 32-bit indices.
    small = x.shape[0] * x.shape[1] * len(U) < 1 << 31 and x.numel() > 0
    if not (x.is_cuda and known and fits and small and triton is not None and has_compiler()):
        return False
    return len(U) <= UNITS_OF_ONE_PROGRAM or processors_of(x.device) * COLUMNS_AT_ONCE >= len(U)


class FullRecurrence(torch.autograd.Function):
    """The recurrence of a layer, with kernels for the states and a handwritten gradient.

    The inputs are x (b, t, E), the state (b, H), and the cell's W, U and b. The outputs are the states (b, t, H) in
    `precision`, and the last state (b, H). Products are computed in `precision`; sums, biases and the gradients of
    weights are float32.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, state: Tensor, W: Tensor, U: Tensor, b: Tensor, nonlinearity: str, precision: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        rows, steps, units = *x.shape[:2], len(U)
        # (t·b, E). Time is the first dimension, so that the states before and after all steps are slices of one array.
        inputs = x.transpose(0, 1).to(precision, memory_format=torch.contiguous_format).flatten(0, 1)
        projected = (inputs @ W.to(precision)).view(steps, rows, units)
        states = projected.new_empty(steps + 1, rows, units)
        compute_states(projected, U, b, state, states, nonlinearity)
        ctx.save_for_backward(inputs, states, W, U)
        ctx.nonlinearity = nonlinearity
        ctx.input_dtype = x.dtype
        ctx.set_materialize_grads(False)
        return states[1:].transpose(0, 1), states[-1].to(b.dtype, copy=True)

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, states, W, U = ctx.saved_tensors
        states_grad, last_grad = output_grads
        deltas = torch.empty_like(states[1:])  # ∂loss/∂a of each step, where a = x W + h U + b
        if states_grad is None:
            states_grad = deltas.new_zeros(()).expand(deltas.shape).transpose(0, 1)
        compute_deltas(states_grad.transpose(0, 1), last_grad, U, states, deltas, ctx.nonlinearity)
        flat_deltas = deltas.flatten(0, 1)  # (t·b, H)
        x_grad = (flat_deltas @ W.t().to(flat_deltas.dtype)).to(ctx.input_dtype)
        state_grad = deltas[0].float() @ U.t().float() if ctx.needs_input_grad[1] else None
        return (
            x_grad.view(*deltas.shape[:2], -1).transpose(0, 1),
            state_grad,
            float32_product(inputs.t(), flat_deltas),
            float32_product(states[:-1].flatten(0, 1).t(), flat_deltas),
            flat_deltas.sum(dim=0, dtype=torch.float32),
            None,
            None,
        )


def float32_product(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right as float32.

    On a GPU, the sums are not rounded to bfloat16 even if the matrices are bfloat16.
    """
    if left.is_cuda and left.dtype == torch.bfloat16:
        return torch.mm(left, right, out_dtype=torch.float32)
    return (left @ right).float()


def compute_states(a: Tensor, U: Tensor, b: Tensor, state: Tensor, states: Tensor, nonlinearity: str) -> None:
    """Compute h' = f(a + h U + b) for all time steps, beginning with the given state.

    `a` has shape (t, b, H) and `state` has shape (b, H). The result is written to `states`, (t + 1, b, H).
    """
    steps, rows, units = a.shape
    state = state if state.stride(1) == 1 else state.contiguous()
    arguments = (a, U.contiguous(), b, state, states, steps, rows, units, state.stride(0), nonlinearity)
    if units <= UNITS_OF_ONE_PROGRAM:
        grid, shape = launch_shape(rows, units)
        states_kernel[grid](*arguments, PRODUCTS[a.dtype], **shape)
    else:
        grid, shape, arrived = shared_launch_shape(rows, units, a.device)
        shared_states_kernel[grid](*arguments, arrived, PRODUCTS[a.dtype], **shape)


def compute_deltas(
    states_grad: Tensor, last_grad: Tensor | None, U: Tensor, states: Tensor, deltas: Tensor, nonlinearity: str
) -> None:
    """Write ∂loss/∂a of each time step to `deltas`, (t, b, H).

    Args:
        states_grad: The gradient of the outputs, (t, b, H).
        last_grad: The gradient of the last state, (b, H), or None.
        U: The recurrent matrix, (H, H).
        states: The result of compute_states(), (t + 1, b, H).
        deltas: The array to fill, (t, b, H).
        nonlinearity: The name of f.
    """
    steps, rows, units = deltas.shape
    states_grad = states_grad if states_grad.stride(2) == 1 else states_grad.contiguous()
    has_last = last_grad is not None
    # The kernel needs a tensor as this argument, but reads it only if has_last is true.
    last_grad = states_grad if last_grad is None else last_grad.contiguous()
    tensors = (states_grad, last_grad, U.contiguous(), states, deltas)
    arguments = (*tensors, steps, rows, units, states_grad.stride(1), states_grad.stride(0), has_last, nonlinearity)
    if units <= UNITS_OF_ONE_PROGRAM:
        grid, shape = launch_shape(rows, units)
        deltas_kernel[grid](*arguments, PRODUCTS[deltas.dtype], **shape)
    else:
        grid, shape, arrived = shared_launch_shape(rows, units, deltas.device)
        shared_deltas_kernel[grid](*arguments, arrived, PRODUCTS[deltas.dtype], **shape)


# The argument input_precision of tl.dot for each precision. It affects only float32.
PRODUCTS = {torch.bfloat16: "tf32", torch.float32: "ieee"}


def launch_shape(rows: int, units: int) -> tuple[tuple[int], dict[str, int]]:
    """Return the grid, and the kernel's arguments that determine how much each program computes."""
    block = max(16, triton.next_power_of_2(units))
    return (triton.cdiv(rows, PROGRAM_ROWS),), {
        "group": PROGRAM_ROWS,
        "block": block,
        "num_warps": 8 if block >= 256 else 4,
    }


def shared_launch_shape(rows: int, units: int, device: torch.device) -> tuple[tuple[int], dict[str, int], Tensor]:
    """Return the grid, the kernel's arguments, and a counter of 0 for each set of programs that share rows.

    The programs of a set wait for each other, so all of them must run at the same time. There are therefore at most as
    many programs as the GPU has multiprocessors.
    """
    block, programs = triton.next_power_of_2(units), triton.cdiv(units, COLUMNS_AT_ONCE)
    sets = processors_of(device) // programs
    groups = [size for size in (16, 32, 64) if size == 16 or size * block <= MOST_SHARED_STATES]
    group = next((size for size in groups if sets * size >= rows), groups[-1])
    sets = min(sets, triton.cdiv(rows, group))
    shape = {"group": group, "block": block, "columns": COLUMNS_AT_ONCE, "programs": programs, "sets": sets}
    arrived = torch.zeros(sets * COUNTER_STRIDE, dtype=torch.int32, device=device)
    return (sets * programs,), shape | {"counter_stride": COUNTER_STRIDE, "num_warps": 4, "num_stages": 1}, arrived


@functools.cache
def processors_of(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
