"""AdamW can update only some rows. It uses the configured rate and decay. Gradient norms include sparse gradients."""

import copy

import pytest
import torch
from torch import nn

from rnnlm.config import OptimizerConfig
from rnnlm.training.optimizers import LazyAdamW, clip_gradients, make_optimizer
from tests.rnnlm.training.small_training_loop import network


def sparse_gradient(rows: list[int], values: torch.Tensor, height: int) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, (height, values.shape[1]), check_invariants=False)


def test_rows_with_gradients_take_the_step_of_adamw_and_others_none() -> None:
    dense, sparse = nn.Parameter(torch.randn(6, 3)), nn.Parameter(torch.zeros(6, 3))
    sparse.data = dense.data.clone()
    before = dense.detach().clone()
    reference = torch.optim.AdamW([dense], lr=0.1, weight_decay=0.3)
    lazy = LazyAdamW([sparse], lr=0.1, weight_decay=0.3, fused=True)
    for step in range(3):
        values = torch.randn(2, 3, generator=torch.Generator().manual_seed(step))
        dense.grad = sparse_gradient([1, 4], values, 6).to_dense()
        sparse.grad = sparse_gradient([1, 4], values, 6)
        reference.step()
        lazy.step()
    torch.testing.assert_close(sparse[[1, 4]], dense[[1, 4]])
    assert torch.equal(sparse[[0, 2, 3, 5]], before[[0, 2, 3, 5]])


def test_gradients_of_a_repeated_row_are_summed() -> None:
    ones, twos = nn.Parameter(torch.zeros(4, 2)), nn.Parameter(torch.zeros(4, 2))
    ones.grad = sparse_gradient([3, 3], torch.tensor([[1.0, 2.0], [4.0, 8.0]]), 4)
    twos.grad = sparse_gradient([3], torch.tensor([[5.0, 10.0]]), 4)
    for parameter in (ones, twos):
        LazyAdamW([parameter], lr=0.1, fused=True).step()
    assert torch.equal(ones, twos)


def test_a_row_of_zeros_takes_no_step_in_either_form() -> None:
    """A row of zeros in a gradient is not updated, whether the gradient is sparse or dense.

    Dropped tokens have such rows. With several processes, gradients are dense, and must cause the same updates as the
    sparse gradients of one process.
    """
    dense, sparse = nn.Parameter(torch.ones(4, 2)), nn.Parameter(torch.ones(4, 2))
    optimizers = [LazyAdamW([one], lr=0.1, weight_decay=0.3, fused=True) for one in (dense, sparse)]
    optimizers[0].by_rows = (dense,)
    for values in (torch.ones(2, 2), torch.tensor([[0.0, 0.0], [1.0, 2.0]])):
        sparse.grad = sparse_gradient([1, 3], values, 4)
        dense.grad = sparse.grad.to_dense()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(dense, sparse)


def test_dense_and_sparse_gradients_may_alternate_across_a_saved_state() -> None:
    parameter = nn.Parameter(torch.ones(4, 2))
    optimizer = LazyAdamW([parameter], lr=0.1, fused=True)
    for turn in range(4):
        parameter.grad = torch.ones(4, 2) if turn % 2 else sparse_gradient([0, 2], torch.ones(2, 2), 4)
        if turn == 2:
            saved = copy.deepcopy(optimizer.state_dict())
            optimizer = LazyAdamW([parameter], lr=0.1, fused=True)
            optimizer.load_state_dict(saved)
        optimizer.step()
    assert float(optimizer.state[parameter]["step"]) == 4
    # All steps updated the first row, and all steps but two updated the second row.
    assert parameter[0, 0] < parameter[1, 0] < 1


@pytest.mark.parametrize(("limit", "scale"), [(100.0, 1.0), (0.5, 0.1), (None, 1.0)])
def test_clipping_by_hand(limit: float | None, scale: float) -> None:
    whole, rows = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(5, 1))
    whole.grad = torch.tensor([0.0, 3.0])
    # Both entries belong to row 2, so its gradient is their sum, 4.
    rows.grad = sparse_gradient([2, 2], torch.tensor([[1.0], [3.0]]), 5)
    norm = clip_gradients([whole, rows, nn.Parameter(torch.zeros(1))], limit)
    assert float(norm) == pytest.approx(5.0)
    assert whole.grad.tolist() == pytest.approx([0.0, 3.0 * scale], rel=1e-5)
    assert rows.grad.to_dense()[2, 0] == pytest.approx(4.0 * scale, rel=1e-5)


def test_weight_decay_applies_to_matrices_only() -> None:
    """Weight decay applies to matrices, but not to vectors.

    A step with zero gradients multiplies matrices by 1 - rate * decay.
    """
    model = network(layers=2)
    model.head.bias.data.fill_(0.7)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = make_optimizer(model, OptimizerConfig(learning_rate=0.1, weight_decay=0.3))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.detach(), before[name] * (0.97 if value.ndim == 2 else 1.0))


@pytest.mark.parametrize(
    ("kind", "units", "layers", "rate"),
    [
        ("elman", 64, 1, 0.004),
        ("elman", 256, 2, 0.004),
        ("elman", 1_024, 1, 0.004 * 0.25**0.75),
        ("lstm", 512, 1, 0.004),
    ],
)
def test_the_default_rate_depends_on_the_width_of_an_elman_network(
    kind: str, units: int, layers: int, rate: float
) -> None:
    model = network(kind=kind, hidden_size=units, layers=layers)
    assert {group["lr"] for group in make_optimizer(model, OptimizerConfig()).param_groups} == {rate}
    given = make_optimizer(model, OptimizerConfig(learning_rate=0.3))
    assert {group["lr"] for group in given.param_groups} == {0.3}
