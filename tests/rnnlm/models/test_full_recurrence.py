"""The recurrence kernels agree with a loop in float64. Without a GPU, they run in Triton's interpreter."""

import pytest
import torch
from torch import Tensor

from rnnlm.models import diagonal_recurrence, full_recurrence
from rnnlm.models.elman import SLOPES
from rnnlm.models.full_recurrence import KERNEL_NONLINEARITIES, FullRecurrence

KERNEL_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# On a GPU the kernel is tested in bfloat16, because layers use it only in this precision. The interpreter is tested in
# float32.
KERNEL_PRECISION, KERNEL_ERROR = (torch.bfloat16, 3e-2) if KERNEL_DEVICE == "cuda" else (torch.float32, 2e-5)
RECURRENCE_SHAPES = [  # The numbers of rows, time steps, inputs and units.
    (1, 1, 3, 5),
    (17, 2, 5, 5),
    (16, 3, 16, 16),
    (3, 29, 7, 33),
    (33, 4, 20, 100),
    (5, 6, 128, 128),
]


def values(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_inputs(rows: int, steps: int, inputs: int, units: int, carried: bool = True) -> list[Tensor]:
    """Return the tensors x, state, W, U and b."""
    state = values(rows, 2, units, seed=1, scale=0.5)[:, 1] if carried else torch.zeros(rows, units).double()
    weights = values(inputs, units, seed=2) / inputs**0.5, values(units, units, seed=3) * 0.6 / units**0.5
    return [values(rows, steps, inputs, seed=0, scale=0.5), state, *weights, values(units, seed=4, scale=0.3)]


def looped(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, nonlinearity: str) -> tuple[Tensor, Tensor]:
    states = []
    for step in range(x.shape[1]):
        h = getattr(torch, nonlinearity)(x[:, step] @ W + h @ U + b)
        states.append(h)
    return torch.stack(states, dim=1), h


def compare(given: list[Tensor], nonlinearity: str) -> None:
    """Compare a kernel with the loop: the states, the last state, and the gradients of all inputs.

    The loss depends on all states and on the last state.
    """
    results = []
    for is_kernel in (False, True):
        kind = torch.float32 if is_kernel else torch.float64
        leaves = [one.to(KERNEL_DEVICE if is_kernel else "cpu", kind, copy=True).requires_grad_() for one in given]
        if is_kernel:
            states, last = FullRecurrence.apply(*leaves, nonlinearity, KERNEL_PRECISION)
        else:
            states, last = looped(*leaves, nonlinearity=nonlinearity)
        factors = values(*states.shape, seed=5).to(states.device, states.dtype)
        ((states * factors).sum() + (last * factors[:, 0].to(last.dtype)).sum()).backward()
        results.append([one.detach().cpu().double() for one in (states, last, *(leaf.grad for leaf in leaves))])
    # relu has a larger error, because rounding may change the sign of a sum near zero, where relu's slope changes.
    error = KERNEL_ERROR * (10 if nonlinearity == "relu" else 1)
    for expected, found in zip(*results, strict=True):
        assert torch.isfinite(found).all()
        assert float((found - expected).norm()) <= error * float(expected.norm()) + 1e-6


@pytest.mark.parametrize("nonlinearity", KERNEL_NONLINEARITIES)
@pytest.mark.parametrize("shape", RECURRENCE_SHAPES, ids=str)
def test_the_kernel_is_the_loop(shape: tuple[int, int, int, int], nonlinearity: str) -> None:
    compare(layer_inputs(*shape), nonlinearity)


def test_a_block_of_256_units_is_the_loop() -> None:
    for units in (200, 256):
        compare(layer_inputs(2, 2, 8, units), "tanh")


@pytest.mark.parametrize("shape", [(70, 3, 5, 20), (1, 4, 3, 64)], ids=str)
def test_programs_that_share_rows_compute_the_loop(
    shape: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel in which several programs share rows agrees with the loop.

    The interpreter runs programs one after another, so there each program has all columns of its rows.
    """
    monkeypatch.setattr(full_recurrence, "UNITS_OF_ONE_PROGRAM", 4)
    monkeypatch.setattr(full_recurrence, "COLUMNS_AT_ONCE", 16 if KERNEL_DEVICE == "cuda" else 64)
    monkeypatch.setattr(full_recurrence, "processors_of", lambda device: 4 if KERNEL_DEVICE == "cuda" else 1)
    for nonlinearity in KERNEL_NONLINEARITIES:
        compare(layer_inputs(*shape), nonlinearity)


@pytest.mark.skipif(KERNEL_DEVICE == "cpu", reason="needs programs that run at once")
@pytest.mark.parametrize("shape", [(3, 5, 8, 257), (40, 6, 16, 400), (150, 4, 8, 512), (600, 3, 8, 1024)], ids=str)
def test_wide_layers_are_the_loop(shape: tuple[int, int, int, int]) -> None:
    compare(layer_inputs(*shape), "tanh")


def test_a_text_begins_at_zero_and_huge_values_saturate() -> None:
    given = layer_inputs(4, 5, 6, 20, carried=False)
    compare(given, "tanh")
    given[0][1] *= 1e30
    given[0][2] *= -1e30
    leaves = [one.to(KERNEL_DEVICE, torch.float32).requires_grad_() for one in given]
    states, _ = FullRecurrence.apply(*leaves, "tanh", KERNEL_PRECISION)
    assert states[1:3].abs().min() == 1
    states.square().sum().backward()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)
    assert leaves[0].grad[1:3].abs().max() == 0


def test_only_one_result_may_have_a_gradient() -> None:
    leaves = [one.to(KERNEL_DEVICE, torch.float32).requires_grad_() for one in layer_inputs(3, 4, 5, 6)]
    grads = []
    for read in (lambda states, last: states[:, -1].sum(), lambda states, last: last.sum()):
        results = FullRecurrence.apply(*leaves, "tanh", KERNEL_PRECISION)
        grads.append(torch.autograd.grad(read(*results), leaves))
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 6, 5), (3, 29, 70)], ids=str)
def test_the_diagonal_kernel_is_the_loop(shape: tuple[int, int, int], nonlinearity: str) -> None:
    """The kernel for diagonal layers agrees with the loop. `shape` has the numbers of rows, time steps and units."""
    rows, steps, units = shape
    a, u, h0 = values(steps, rows, units, seed=0), values(units, seed=1, scale=0.5), values(rows, units, seed=2)
    expected = [h0]
    for step in range(steps):
        expected.append(getattr(torch, nonlinearity)(a[step] + expected[-1] * u))
    on_device = [one.to(KERNEL_DEVICE, torch.float32) for one in (a, u, h0)]
    states = on_device[0].new_empty(steps + 1, rows, units)
    states[0] = on_device[2]
    diagonal_recurrence.compute_states(on_device[0], on_device[1], states, nonlinearity)
    torch.testing.assert_close(states.cpu().double(), torch.stack(expected), rtol=1e-4, atol=1e-5)
    grad = values(steps, rows, units, seed=3)
    delta = torch.zeros(rows, units).double()
    expected_deltas: list[Tensor] = []
    for step in reversed(range(steps)):
        delta = (grad[step] + u * delta) * SLOPES[nonlinearity](expected[step + 1])
        expected_deltas.insert(0, delta)
    deltas = torch.empty_like(states[1:])
    grad_on_device = grad.to(KERNEL_DEVICE, torch.float32)
    diagonal_recurrence.compute_deltas(grad_on_device, on_device[1], states, deltas, nonlinearity)
    torch.testing.assert_close(deltas.cpu().double(), torch.stack(expected_deltas), rtol=1e-4, atol=1e-5)
