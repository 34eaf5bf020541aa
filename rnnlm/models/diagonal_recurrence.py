"""The recurrence of a diagonal layer on a GPU: all time steps in one kernel of Triton. Part of every bundle.

torch for CUDA brings Triton along, which needs a C compiler. Without them, and on a CPU, elman.py loops over time.
Shapes: batch b, time t, hidden size H.
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

UNITS_AT_ONCE = 64  # per program; one program computes all steps of these units of one row


def has_kernel(states: Tensor, nonlinearity: str) -> bool:
    fits = states.is_cuda and states.dtype == torch.float32 and nonlinearity in ("tanh", "relu")
    return fits and triton is not None and has_compiler()


@functools.cache
def has_compiler() -> bool:
    """Return True if a C compiler is found. It is searched for once, because every layer of every step asks."""
    return any(map(shutil.which, (os.environ.get("CC", "gcc"), "gcc", "clang")))


def compute_states(a: Tensor, u: Tensor, states: Tensor, nonlinearity: str) -> None:
    """Compute h' = f(a + u ⊙ h) for all steps. a: (t, b, H), u: (H,), states: (t + 1, b, H), whose first is read."""
    steps, rows, units = a.shape
    grid = (rows, triton.cdiv(units, UNITS_AT_ONCE))
    forward_kernel[grid](a, u, states, steps, rows * units, units, nonlinearity == "tanh", UNITS_AT_ONCE)


def compute_deltas(states_grad: Tensor, u: Tensor, states: Tensor, deltas: Tensor, nonlinearity: str) -> None:
    """Write deltas, (t, b, H): ∂loss/∂a of each step. states_grad: (t, b, H), states: (t + 1, b, H)."""
    steps, rows, units = deltas.shape
    grid = (rows, triton.cdiv(units, UNITS_AT_ONCE))
    backward_kernel[grid](
        states_grad, u, states, deltas, steps, rows * units, units, nonlinearity == "tanh", UNITS_AT_ONCE
    )


# Triton 3.6 compiles annotations, too, and knows only its own names in them.
if triton is not None:

    @triton.jit
    def forward_kernel(a, u, states, steps, stride, units, is_tanh: tl.constexpr, block: tl.constexpr):
        """Compute the states of a block of units for all time steps. stride: elements from one step to the next."""
        unit = tl.program_id(1) * block + tl.arange(0, block)
        length = tl.where(unit < units, steps, 0)
        factor = tl.load(u + unit, length > 0, 0.0)
        offsets = tl.program_id(0).to(tl.int64) * units + unit  # there may be more than 2³¹ states
        h = tl.load(states + offsets, length > 0, 0.0)
        # Four steps are read ahead, because a step takes less time than a read.
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
        after = states + stride  # after each step
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
