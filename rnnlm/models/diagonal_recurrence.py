"""The recurrence of a diagonal layer on a GPU, with all time steps in one Triton kernel.

The module is copied into every bundle. torch for CUDA includes Triton, which needs a C compiler. If Triton or the
compiler is missing, or on a CPU, elman.py loops over time. Shapes: batch b, time t, hidden size H.
"""

import functools
import os
import shutil

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# The number of units for which one program of the kernel computes all time steps of one row.
UNITS_AT_ONCE = 64


def has_kernel(states: Tensor, nonlinearity: str) -> bool:
    fits = states.is_cuda and states.dtype == torch.float32 and nonlinearity in ("tanh", "relu")
    return fits and triton is not None and has_compiler()


@functools.cache
def has_compiler() -> bool:
    """Return True if there is a C compiler.

    The result is cached, because every layer calls this function in every step.
    """
    return any(map(shutil.which, (os.environ.get("CC", "gcc"), "gcc", "clang")))


def compute_states(a: Tensor, u: Tensor, states: Tensor, nonlinearity: str) -> None:
    """Compute h' = f(a + u ⊙ h) for all time steps.

    Args:
        a: The inputs of the units, (t, b, H).
        u: The diagonal, (H,).
        states: The first state on entry, and all states on return, (t + 1, b, H).
        nonlinearity: The name of f.
    """
    steps, rows, units = a.shape
    grid = (rows, triton.cdiv(units, UNITS_AT_ONCE))
    forward_kernel[grid](a, u, states, steps, rows * units, units, nonlinearity == "tanh", UNITS_AT_ONCE)


def compute_deltas(states_grad: Tensor, u: Tensor, states: Tensor, deltas: Tensor, nonlinearity: str) -> None:
    """Write ∂loss/∂a of each time step to `deltas`, (t, b, H).

    Args:
        states_grad: The gradient of the outputs, (t, b, H).
        u: The diagonal, (H,).
        states: The result of compute_states(), (t + 1, b, H).
        deltas: The array to fill, (t, b, H).
        nonlinearity: The name of f.
    """
    steps, rows, units = deltas.shape
    grid = (rows, triton.cdiv(units, UNITS_AT_ONCE))
    backward_kernel[grid](
        states_grad, u, states, deltas, steps, rows * units, units, nonlinearity == "tanh", UNITS_AT_ONCE
    )


# Triton 3.6 compiles annotations and fails for names that it does not know, so the kernels have none.
if triton is not None:

    @triton.jit
    def forward_kernel(a, u, states, steps, stride, units, is_tanh: tl.constexpr, block: tl.constexpr):
        """Compute the states of a block of units for all time steps.

        `stride` is the number of elements from one time step to the next.
        """
        unit = tl.program_id(1) * block + tl.arange(0, block)
        length = tl.where(unit < units, steps, 0)
        factor = tl.load(u + unit, length > 0, 0.0)
        # The index has 64 bits, because an array may have more than 2³¹ states.
        offsets = tl.program_id(0).to(tl.int64) * units + unit
        h = tl.load(states + offsets, length > 0, 0.0)
        # Four steps are loaded in advance, because loading a step takes longer than computing it.
        a0 = tl.load(a + offsets, length > 0, 0.0)
        a1 = tl.load(a + offsets + stride, length > 1, 0.0)
        a2 = tl.load(a + offsets + 2 * stride, length > 2, 0.0)
        a3 = tl.load(a + offsets + 3 * stride, length > 3, 0.0)
        for step in range(steps):
            h = a0 + factor * h
            a0, a1, a2 = a1, a2, a3
            a3 = tl.load(a + offsets + 4 * stride, length > step + 4, 0.0)
            h = 2.0 * tl.sigmoid(2.0 * h) - 1.0 if is_tanh else tl.maximum(h, 0.0)
            offsets += stride
            tl.store(states + offsets, h, length > 0)

    @triton.jit
    def backward_kernel(
        states_grad, u, states, deltas, steps, stride, units, is_tanh: tl.constexpr, block: tl.constexpr
    ):
        unit = tl.program_id(1) * block + tl.arange(0, block)
        length = tl.where(unit < units, steps, 0)
        factor = tl.load(u + unit, length > 0, 0.0)
        offsets = tl.program_id(0).to(tl.int64) * units + unit + (steps - 1) * stride
        after = states + stride  # The address of the state after each step.
        delta = tl.zeros([block], tl.float32)
        g0 = tl.load(states_grad + offsets, length > 0, 0.0)
        g1 = tl.load(states_grad + offsets - stride, length > 1, 0.0)
        g2 = tl.load(states_grad + offsets - 2 * stride, length > 2, 0.0)
        g3 = tl.load(states_grad + offsets - 3 * stride, length > 3, 0.0)
        h0 = tl.load(after + offsets, length > 0, 0.0)
        h1 = tl.load(after + offsets - stride, length > 1, 0.0)
        h2 = tl.load(after + offsets - 2 * stride, length > 2, 0.0)
        h3 = tl.load(after + offsets - 3 * stride, length > 3, 0.0)
        for step in range(steps):
            slope = 1.0 - h0 * h0 if is_tanh else (h0 > 0).to(tl.float32)
            delta = (g0 + factor * delta) * slope
            tl.store(deltas + offsets, delta, length > 0)
            g0, g1, g2 = g1, g2, g3
            g3 = tl.load(states_grad + offsets - 4 * stride, length > step + 4, 0.0)
            h0, h1, h2 = h1, h2, h3
            h3 = tl.load(after + offsets - 4 * stride, length > step + 4, 0.0)
            offsets -= stride
