"""The Elman cell, the stack of layers and the language model agree with their equations."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from rnnlm.config import ModelKind
from rnnlm.models.elman import ElmanCell
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.stack import Stack
from tests.configs import new_model


def language_model(**settings: object) -> LanguageModel:
    initial = "spread" if settings.get("recurrence") == "diagonal" else "orthogonal"
    return new_model(11, 6, **{"recurrent_initialization": initial} | settings)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def random_stack(layers: int, nonlinearity: str, backend: str, diagonal: bool = False, residual: bool = False) -> Stack:
    cells = [ElmanCell(size, 5, nonlinearity, diagonal) for size in [3] + [5] * (layers - 1)]
    stack = Stack(cells, backend, residual, branch_scale=0.5).double()
    generator = torch.Generator().manual_seed(2)
    for parameter in stack.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4
    return stack


def test_the_cell_by_hand() -> None:
    cell = ElmanCell(2, 1)
    cell.W.data, cell.U.data, cell.b.data = (
        torch.tensor([[1.0], [2.0]]),
        torch.tensor([[0.5]]),
        torch.tensor([-1.0]),
    )
    h = cell(torch.tensor([[0.1, 0.2]]), torch.tensor([[0.4]]))
    assert h.item() == pytest.approx(math.tanh(0.1 * 1 + 0.2 * 2 + 0.4 * 0.5 - 1))


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_the_stack_is_torch_rnn_in_values_and_gradients(nonlinearity: str, layers: int, backend: str) -> None:
    stack = random_stack(layers, nonlinearity, backend)
    reference = nn.RNN(3, 5, layers, nonlinearity, batch_first=True).double()  # type: ignore[call-overload]
    for index, cell in enumerate(stack.cells):
        getattr(reference, f"weight_ih_l{index}").data = cell.W.data.t().clone()
        getattr(reference, f"weight_hh_l{index}").data = cell.U.data.t().clone()
        getattr(reference, f"bias_ih_l{index}").data = cell.b.data.clone()
        getattr(reference, f"bias_hh_l{index}").data.zero_()
    x, state = drawn(4, 7, 3), drawn(4, layers, 5)
    ours, last = stack(x, state)
    theirs, last_there = reference(x, state.transpose(0, 1).contiguous())
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(last, last_there.transpose(0, 1))
    (ours.square().sum() + last.sum()).backward()
    (theirs.square().sum() + last_there.sum()).backward()
    for index, cell in enumerate(stack.cells):
        torch.testing.assert_close(cell.W.grad, getattr(reference, f"weight_ih_l{index}").grad.t())
        torch.testing.assert_close(cell.U.grad, getattr(reference, f"weight_hh_l{index}").grad.t())
        torch.testing.assert_close(cell.b.grad, getattr(reference, f"bias_ih_l{index}").grad)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_a_diagonal_is_a_matrix_without_its_other_elements(nonlinearity: str, backend: str) -> None:
    """A layer with a diagonal U equals a layer whose matrix U is zero outside the diagonal.

    Values and gradients are equal, with and without training.
    """
    diagonal = random_stack(2, nonlinearity, backend, diagonal=True)
    full = random_stack(2, nonlinearity, backend)
    for cell, of_matrix in zip(diagonal.cells, full.cells, strict=True):
        of_matrix.W.data, of_matrix.b.data = cell.W.data, cell.b.data
        of_matrix.U.data = cell.U.data.diag()
    x, state = drawn(4, 7, 3), drawn(4, 2, 5)
    results = []
    by_steps = random_stack(2, nonlinearity, "loop")
    by_steps.load_state_dict(full.state_dict())
    for stack in (diagonal, full):
        with torch.no_grad():
            torch.testing.assert_close(stack(x, state), by_steps(x, state))
        before = state.clone().requires_grad_()
        outputs, last = stack(x, before)
        (outputs.square().sum() + last.sum()).backward()
        results.append((outputs, last, before.grad))
    torch.testing.assert_close(*results)
    for cell, of_matrix in zip(diagonal.cells, full.cells, strict=True):
        assert cell.U.shape == (5,)
        torch.testing.assert_close(cell.U.grad, of_matrix.U.grad.diagonal())
        torch.testing.assert_close(cell.W.grad, of_matrix.W.grad)
        torch.testing.assert_close(cell.b.grad, of_matrix.b.grad)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("backend", ["loop", "fused"])
def test_residual_layers_add_to_their_normalized_input(nonlinearity: str, backend: str) -> None:
    """The states of residual layers agree with a step-by-step calculation by hand, with and without training.

    The carried states are the states of the cells, without the residuals.
    """

    def normalised(below: Tensor, norm: nn.Module) -> Tensor:
        centred = below - below.mean(dim=1, keepdim=True)
        return centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * norm.weight * 0.2

    stack = random_stack(3, nonlinearity, backend, residual=True)
    x, state = drawn(4, 7, 3), drawn(4, 3, 5)
    lowest, middle, top = stack.cells
    g, h, k = state.unbind(dim=1)
    expected = []
    for time in range(7):
        g = lowest(x[:, time], g)
        h = middle(normalised(g, stack.norms[0]), h)
        k = top(normalised(g + h / 2, stack.norms[1]), k)
        expected.append(g + h / 2 + k / 2)
    for learns in (True, False):
        with torch.set_grad_enabled(learns):
            outputs, last = stack(x, state)
        torch.testing.assert_close(outputs, torch.stack(expected, dim=1))
        torch.testing.assert_close(last, torch.stack([g, h, k], dim=1))


@pytest.mark.parametrize(("diagonal", "residual"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid"])
@pytest.mark.parametrize("steps", [1, 7])
def test_the_handwritten_gradient_equals_autograd(
    nonlinearity: str, steps: int, diagonal: bool, residual: bool
) -> None:
    """The explicit formulas for the gradients of inputs, weights and state agree with autograd.

    The loss depends on the outputs only, or on the last state only.
    """
    gradients = {}
    for backend in ("loop", "fused"):
        stack = random_stack(2, nonlinearity, backend, diagonal, residual)
        x, state = drawn(4, steps, 3).requires_grad_(), drawn(4, 2, 5).requires_grad_()
        outputs, last = stack(x, state)
        leaves = [x, state, *stack.parameters()]
        gradients[backend] = [
            torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
            for loss in (outputs.square().sum(), last.square().sum(), (outputs * drawn(4, steps, 5)).sum() + last.sum())
        ]
    for by_hand, by_loop in zip(gradients["fused"], gradients["loop"], strict=True):
        for one, other in zip(by_hand, by_loop, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("tied", [False, True])
def test_pad_stays_zero_and_pad_and_bos_are_never_predicted(tied: bool) -> None:
    model = language_model(tie_embeddings=tied)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    ids = torch.tensor([[2, 4, 5, 0, 0]])
    for _ in range(5):
        logits, _state = model(ids)
        assert torch.isneginf(logits[..., [0, 2]]).all()
        assert torch.isfinite(logits[..., [1, 3, 4]]).all()
        nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor([4, 5, 3, 0, 0]), ignore_index=0).backward()
        optimizer.step()
    assert torch.equal(model.embedding.weight[0], torch.zeros(6))
    assert model.embedding.weight.isfinite().all()
    assert (model.head.weight is model.embedding.weight) == tied


def test_tied_embeddings_narrower_than_the_state_are_read_through_one_matrix() -> None:
    model = language_model(tie_embeddings=True, embedding_size=4, layers=2)
    table, readout = model.embedding.weight, dict(model.named_parameters())["readout.weight"]
    assert (table.shape, readout.shape, model.head.weight) == ((11, 4), (4, 6), table)
    ids = torch.tensor([[4, 5, 6]])
    logits, state = model(ids)
    top, _ = model.stack(model.embedding(ids))
    by_hand = top[0, -1] @ readout.t() @ table.t() + model.head.bias
    torch.testing.assert_close(logits[0, -1, 3:], by_hand[3:])
    assert state.shape == (1, 2, 6)
    assert sum("readout" in name for name in language_model(tie_embeddings=True).state_dict()) == 0


def test_a_model_without_preferences_has_perplexity_equal_to_the_predictable_tokens() -> None:
    model = language_model()
    model.head.weight.data.zero_()
    logits, _ = model(torch.tensor([[2, 4]]))
    nll = nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor([4, 3]))
    # 9 of the 11 tokens are equally probable; <pad> and <bos> are never predicted.
    assert math.exp(nll.detach()) == pytest.approx(9)


@pytest.mark.parametrize("kind", get_args(ModelKind))
@torch.no_grad()
def test_initial_matrices_as_asked_for(kind: ModelKind) -> None:
    """Initial matrices have the configured distribution.

    The variance of `he` is 2 / inputs, and `xavier` is uniform within its bound.
    """
    sizes = {"embedding_size": 96, "attention_window": 2}
    he, xavier = (
        new_model(400, 64, kind=kind, initialization=name, embedding_initialization="xavier", **sizes)
        for name in ("he", "xavier")
    )
    for model in (he, xavier):
        assert 0.9 < model.embedding.weight.abs().max() / math.sqrt(6 / (400 + 96)) <= 1
        assert not model.embedding.weight[0].any()
    assert he.head.weight.std() == pytest.approx(math.sqrt(2 / 64), rel=0.03)
    assert 0.9 < xavier.head.weight.abs().max() / math.sqrt(6 / (400 + 64)) <= 1
    first = {model: model.stack.cells[0] for model in (he, xavier)}
    if kind in ("transformer", "xlstm"):
        assert first[he].get_parameter("input.weight").std() == pytest.approx(math.sqrt(2 / 96), rel=0.05)
    else:
        assert first[he].get_parameter("W").std() == pytest.approx(math.sqrt(2 / 96), rel=0.05)
        # For all kinds except IndRNN, the bound is computed for a single gate with 64 columns.
        columns = first[xavier].get_parameter("W").shape[1] if kind == "ind-rnn" else 64
        assert 0.9 < first[xavier].get_parameter("W").abs().max() / math.sqrt(6 / (96 + columns)) <= 1
