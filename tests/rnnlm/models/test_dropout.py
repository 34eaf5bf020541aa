"""Each kind of dropout affects only the configured values, keeps their expectation, and is off during evaluation."""

import dataclasses

import pytest
import torch
from torch import Tensor

from rnnlm.models.dropout import Dropout, Masks, draw_masks, masked_hidden
from rnnlm.models.language_model import LanguageModel
from tests.configs import KINDS, new_model

NOTHING = Masks(words=None, inputs=None, layers=(), outputs=None, recurrent={})
ALL_KINDS = Dropout(words=0.3, inputs=0.4, layers=0.3, outputs=0.4, recurrent=0.5)
IDS = torch.tensor([[2, 4, 5, 4, 6], [4, 7, 8, 9, 4], [5, 5, 6, 0, 0]])


def network(**settings: object) -> LanguageModel:
    initial = "spread" if settings.get("recurrence") == "diagonal" else "orthogonal"
    shape = {"vocabulary_size": 11, "hidden_size": 6, "layers": 3, "recurrent_initialization": initial}
    shape |= {"heads": 1, "attention_window": 3}
    model = new_model(**shape | settings)
    return model.double().train()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gradients(model: LanguageModel, masks: Masks) -> list[Tensor]:
    """Return the gradients of the sum of all outputs. Each output has a different weight in this sum."""
    model.zero_grad()
    hidden, last = masked_hidden(model, masks, IDS)
    weights = torch.randn(hidden.shape, generator=generator(9), dtype=torch.float64)
    ((hidden * weights).sum() + last.square().sum()).backward()
    return [parameter.grad for name, parameter in model.named_parameters() if not name.startswith("head")]  # type: ignore[misc]


def test_the_expectation_stays() -> None:
    """Dropout does not change the expectation of a value.

    The mean of n draws of 0 or 1 / (1 - p) has the standard error sqrt(p / (1 - p) / n).
    """
    model = network(vocabulary_size=20_000, hidden_size=150, layers=2)
    masks = draw_masks(
        model, Dropout(words=0.2, inputs=0.2, layers=0.2, outputs=0.2, recurrent=0.2), range(200), generator()
    )
    for mask in (masks.words, masks.inputs, *masks.layers, masks.outputs, *masks.recurrent.values()):
        assert mask is not None
        assert float(mask.mean()) == pytest.approx(1.0, abs=5 * (0.2 / 0.8 / mask.numel()) ** 0.5)


def test_a_locked_mask_is_constant_over_time_alone() -> None:
    model = network(vocabulary_size=11, hidden_size=64, layers=1)
    ids = torch.full((2, 5), 4)
    draw = generator()
    dropped = []
    for _ in range(2):
        masks = draw_masks(model, Dropout(outputs=0.5), range(2), draw)
        hidden, _last = masked_hidden(model, masks, ids)
        zero = hidden.eq(0)
        assert torch.equal(zero, zero[:, :1].expand_as(zero))
        assert not torch.equal(zero[0], zero[1])
        dropped.append(zero)
    assert not torch.equal(*dropped)


def test_a_dropped_word_is_missing_in_the_whole_batch() -> None:
    """The row of a dropped word is zero in the whole batch. The rows of the other words are scaled up."""
    model = network()
    words = torch.full((11,), 1.25, dtype=torch.float64)
    words[[4, 6]] = 0.0
    hidden, last = masked_hidden(model, dataclasses.replace(NOTHING, words=words), IDS)
    model.embedding.weight.data *= words[:, None]
    by_hand, last_by_hand = model.hidden(IDS)
    torch.testing.assert_close(hidden, by_hand)
    torch.testing.assert_close(last, last_by_hand)


def test_word_dropout_leaves_a_tied_head_whole_and_a_sparse_gradient_sparse() -> None:
    model = network(tie_embeddings=True)
    model.embedding.sparse = True
    masks = dataclasses.replace(NOTHING, words=torch.zeros(11, dtype=torch.float64))
    hidden, _ = masked_hidden(model, masks, IDS)
    hidden.sum().backward()
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad.is_sparse
    assert not model.embedding.weight.grad.to_dense().any()  # All words are dropped, so no row has a gradient.
    assert model.logits(torch.ones_like(hidden))[..., 4].abs().min() > 0


@pytest.mark.parametrize("diagonal", [False, True])
def test_weights_are_dropped_from_u_once_for_all_time_steps(diagonal: bool) -> None:
    """Recurrent dropout gives the same result as a matrix U in which the dropped weights are zero at all time steps.

    Only the weights that were kept have a gradient.
    """
    model = network(recurrence="diagonal" if diagonal else "full")
    masks = draw_masks(model, Dropout(recurrent=0.5), range(3), generator())
    hidden, _ = masked_hidden(model, masks, IDS)
    hidden.sum().backward()
    for cell, mask in zip(model.stack.cells, masks.recurrent.values(), strict=True):
        assert cell.U.grad is not None
        assert torch.equal(cell.U.grad.ne(0), mask.ne(0))
        cell.U.data *= mask
    torch.testing.assert_close(model.hidden(IDS)[0], hidden)


@pytest.mark.parametrize("residual", [False, True])
def test_masks_between_layers_by_hand(residual: bool) -> None:
    """The masks between layers apply to the inputs of cells. They do not apply to the residual connection."""
    model = network(layers=2, residual=residual)
    mask = torch.tensor([0.0, 2, 2, 0, 0, 2], dtype=torch.float64).expand(3, 1, 6)
    masks = dataclasses.replace(NOTHING, layers=(mask,))
    hidden, _ = masked_hidden(model, masks, IDS)
    lower, upper = model.stack.cells
    h, g = torch.zeros(2, 3, 6, dtype=torch.float64)
    for time in range(IDS.shape[1]):
        h = lower(model.embedding(IDS[:, time]), h)
        g = upper((0.2 * model.stack.norms[0](h) if residual else h) * mask[:, 0], g)
        torch.testing.assert_close(hidden[:, time], h + g / 2 if residual else g)


@pytest.mark.parametrize("settings", [{"nonlinearity": "relu"}, *({"kind": kind} for kind in KINDS)])
@pytest.mark.parametrize("kinds", [ALL_KINDS, Dropout(recurrent=0.5)])
def test_kernel_and_loop_agree_under_dropout(settings: dict[str, object], kinds: Dropout) -> None:
    model = network(**settings)
    masks = draw_masks(model, kinds, range(3), generator())
    state = model(IDS[:, :2])[1].detach()
    results = []
    for backend in ("fused", "loop"):
        model.stack.backend = backend  # type: ignore[assignment]
        results.append([*masked_hidden(model, masks, IDS, state), *gradients(model, masks)])
    # A Transformer's rotary angles are float32 and depend on the first position, which differs in single steps.
    rounding = {"atol": 1e-5, "rtol": 1e-5} if settings.get("kind") == "transformer" else {}
    for kernel, loop in zip(*results, strict=True):
        torch.testing.assert_close(kernel, loop, **rounding)


def hidden_under_fresh_masks(
    model: LanguageModel, dropout: Dropout, ids: torch.Tensor, draw: torch.Generator, rows: range | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    return masked_hidden(model, draw_masks(model, dropout, rows or range(len(ids)), draw), ids)


def test_masks_of_a_row_do_not_depend_on_other_rows() -> None:
    """The dropout masks of a row do not depend on the other rows of the batch.

    The compared rows are every second one, as with two processes, or neighbours, as in micro-batches.
    """
    model = network()
    draw = generator()
    whole, _ = hidden_under_fresh_masks(model, ALL_KINDS, IDS, draw)
    for rows in (range(0, 3, 2), range(1, 3, 2), range(2), range(2, 3)):
        ids = IDS[rows.start : rows.stop : rows.step]
        draw_of_part = generator()
        part, _ = hidden_under_fresh_masks(model, ALL_KINDS, ids, draw_of_part, rows)
        # The generators end in the same state, so the sampled loss draws the same classes afterwards.
        assert torch.equal(draw_of_part.get_state(), draw.get_state())
        torch.testing.assert_close(part, whole[rows.start : rows.stop : rows.step])


@pytest.mark.parametrize(("dropout", "training"), [(ALL_KINDS, False), (Dropout(), True)])
def test_without_dropout_nothing_is_drawn(dropout: Dropout, training: bool) -> None:
    model = network().train(training)
    draw = generator()
    before = draw.get_state()
    hidden, last = hidden_under_fresh_masks(model, dropout, IDS, draw)
    assert torch.equal(draw.get_state(), before)
    assert torch.equal(hidden, model.hidden(IDS)[0])
    assert torch.equal(last, model.hidden(IDS)[1])
