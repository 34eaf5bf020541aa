"""The exact loss, computed in chunks, agrees with its definition. It never stores the logits of all tokens."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from rnnlm.losses import projection
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss, exact_cross_entropy
from rnnlm.models.initialization import initialize
from rnnlm.models.language_model import LanguageModel
from tests.configs import new_model, plain_model
from tests.rnnlm.losses.loss_cases import (
    TEXT_SHARE,
    in_both_precisions,
    in_each_precision,
    in_several_chunks_and_in_one,
    with_one_target_and_several,
    with_targets,
)


def losses_and_gradients(loss: Loss, model: LanguageModel, target_ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad()
    hidden = torch.randn(*target_ids.shape[:2], 32, generator=torch.Generator().manual_seed(1)).requires_grad_()
    value = loss(model, hidden, target_ids, None)
    value.backward()
    gradients = [hidden.grad, model.head.weight.grad, model.head.bias.grad]
    return value.detach(), [gradient for gradient in gradients if gradient is not None]


@in_several_chunks_and_in_one
@in_both_precisions
@with_one_target_and_several
def test_loss_and_gradient_are_those_of_the_definition(
    target_count: int,
    rows_at_once: int,
    precision: torch.dtype,
    loss_error: float,
    gradient_error: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(projection, "CPU_CHUNK_LOGITS", rows_at_once * 500)
    model = new_model(500, 32)
    initialize(model, plain_model({"recurrent_initialization": "xavier"}), torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.head.weight.mul_(5)  # Larger weights make the probabilities far from uniform.
    target_ids = torch.randint(3, 500, (6, 11), generator=torch.Generator().manual_seed(2))
    target_ids[3, 5:] = 0  # The end of this row is padding.
    target_ids = with_targets(target_ids, target_count)
    definition = partial(exact_cross_entropy, text_share=TEXT_SHARE)
    exact, exact_gradients = losses_and_gradients(definition, model, target_ids)
    fast, fast_gradients = losses_and_gradients(ChunkedCrossEntropy(precision, TEXT_SHARE), model, target_ids)
    assert fast.dtype == torch.float32
    assert float(fast) == pytest.approx(float(exact), rel=loss_error)
    assert len(fast_gradients) == len(exact_gradients) == 3
    for fast_gradient, exact_gradient in zip(fast_gradients, exact_gradients, strict=True):
        assert fast_gradient.dtype == torch.float32
        assert float((fast_gradient - exact_gradient).norm() / exact_gradient.norm()) < gradient_error
    # The rows of <pad> and <bos> have no gradient, because these tokens are never predicted.
    assert fast_gradients[1][[0, 2]].abs().max() == 0


def test_the_text_has_its_share_and_drawn_targets_the_rest() -> None:
    model = new_model(40, 32)
    hidden = torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(1))
    target_ids = torch.randint(3, 40, (2, 3, 5), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        each = [float(exact_cross_entropy(model, hidden, one)) for one in target_ids.unbind(dim=2)]
        for share in (0.0, 0.2, 1.0):
            expected = share * each[0] + (1 - share) * sum(each[1:]) / 4
            found = exact_cross_entropy(model, hidden, target_ids, text_share=share)
            assert float(found) == pytest.approx(expected)
            alone = exact_cross_entropy(model, hidden, target_ids[..., :1], text_share=share)
            assert float(alone) == pytest.approx(each[0])


@in_each_precision
def test_a_nearly_impossible_target_has_the_loss_of_the_definition(precision: torch.dtype) -> None:
    """The loss of a nearly impossible target is exact, although its probability exp(-120) underflows in float32."""
    model = new_model(40, 32)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
        model.head.bias[5] = -120.0
    target_ids = torch.tensor([[5, 6, 7]])
    exact, exact_gradients = losses_and_gradients(exact_cross_entropy, model, target_ids)
    fast, fast_gradients = losses_and_gradients(ChunkedCrossEntropy(precision), model, target_ids)
    # The other classes are the 37 of 40 that are not <pad>, <bos> or class 5.
    assert float(exact) == pytest.approx((120 + 3 * math.log(37)) / 3)
    assert float(fast) == pytest.approx(float(exact), rel=1e-3)
    torch.testing.assert_close(fast_gradients[2], exact_gradients[2], rtol=1e-2, atol=1e-4)


def test_in_bfloat16_a_small_loss_is_near_the_definitions() -> None:
    """In bfloat16, a small loss differs from its definition by at most about a tenth.

    Every target has a probability of about 0.99. In bfloat16, its difference from 1 has a rounding error of a tenth.
    """
    model = new_model(40, 32)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
        model.head.bias[6] = 8.2
    target_ids = torch.full((2, 3), 6)
    exact, _ = losses_and_gradients(exact_cross_entropy, model, target_ids)
    fast, _ = losses_and_gradients(ChunkedCrossEntropy(torch.bfloat16), model, target_ids)
    assert float(exact) == pytest.approx(0.01, abs=0.001)
    assert float(fast) == pytest.approx(float(exact), rel=0.3)


def test_the_gradient_is_scaled_by_the_outer_gradient() -> None:
    model = new_model(40, 32)
    target_ids = torch.tensor([[5, 6, 7]])
    _, once = losses_and_gradients(ChunkedCrossEntropy(), model, target_ids)
    once = [gradient.clone() for gradient in once]
    _, thrice = losses_and_gradients(lambda *given: 3 * ChunkedCrossEntropy()(*given), model, target_ids)
    for one, three in zip(once, thrice, strict=True):
        torch.testing.assert_close(three, 3 * one)
