"""The sampled loss is unbiased and equals the exact loss with all classes. Its gradients contain only some rows."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from rnnlm.losses import projection
from rnnlm.losses.loss import exact_cross_entropy, target_shares
from rnnlm.losses.sampled_softmax import SampledCrossEntropy, inclusion_probabilities
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

VOCABULARY = 200
UNIGRAM = np.where(np.isin(np.arange(VOCABULARY), [0, 2]), 0.0, 1 / (np.arange(VOCABULARY) + 3.0))


def language_model(sparse: bool = False) -> LanguageModel:
    model = new_model(VOCABULARY, 16)
    initialize(model, plain_model({"recurrent_initialization": "xavier"}), torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.head.weight.mul_(4)
    model.embedding.sparse = sparse
    return model


def hidden_and_targets() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    targets = torch.multinomial(torch.from_numpy(UNIGRAM), 60, replacement=True, generator=generator).view(6, 10)
    targets[2, 4:] = 0  # The end of this row is padding.
    return torch.randn(6, 10, 16, generator=generator), targets


@given(
    some.lists(some.floats(1e-6, 1e6), min_size=1, max_size=60),
    some.integers(1, 80),
)
def test_inclusion_probabilities_fill_the_sample(weights: list[float], size: int) -> None:
    inclusion = inclusion_probabilities(np.array(weights), size)
    assert inclusion.min() > 0
    assert inclusion.max() <= 1 + 1e-12
    assert inclusion.sum() == pytest.approx(min(size, len(weights)))
    unsure = inclusion < 1
    ratios = inclusion[unsure] / np.array(weights)[unsure]
    # Probabilities below 1 are proportional to the weights.
    assert ratios == pytest.approx(ratios[:1].repeat(len(ratios)))


def test_a_sample_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 class, found 0"):
        inclusion_probabilities(np.ones(3), 0)


def test_classes_are_drawn_with_their_inclusion_probabilities() -> None:
    loss = SampledCrossEntropy(UNIGRAM, 50)
    generator = torch.Generator().manual_seed(0)
    counts = np.zeros(VOCABULARY)
    for _ in range(4_000):
        sample = loss.draw(generator)
        assert len(sample) == 50 == len(sample.unique())
        counts[sample.numpy()] += 1
    assert counts[[0, 2]].sum() == 0
    error = np.sqrt(loss.inclusion * (1 - loss.inclusion) / 4_000)
    assert (np.abs(counts / 4_000 - loss.inclusion) <= 5 * error + 1e-12).all()


def test_the_estimate_of_z_has_no_bias() -> None:
    logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(3))
    loss = SampledCrossEntropy(UNIGRAM, 50)
    predictable = torch.from_numpy(UNIGRAM > 0)
    generator = torch.Generator().manual_seed(0)
    draws = [loss.draw(generator) for _ in range(4_000)]
    estimates = torch.stack([(logits[draw] - loss.log_inclusion[draw]).exp().sum() for draw in draws])
    expected = float(logits[predictable].exp().sum())
    assert float(estimates.mean()) == pytest.approx(expected, abs=5 * float(estimates.std()) / 4_000**0.5)


@pytest.mark.parametrize("sparse", [False, True])
@with_one_target_and_several
def test_a_sample_of_all_classes_gives_the_exact_loss(target_count: int, sparse: bool) -> None:
    hidden, targets = hidden_and_targets()
    targets = with_targets(targets, target_count)
    results = []
    for loss, model in (
        (partial(exact_cross_entropy, text_share=TEXT_SHARE), language_model()),
        (SampledCrossEntropy(UNIGRAM, VOCABULARY, text_share=TEXT_SHARE), language_model(sparse)),
    ):
        leaf = hidden.clone().requires_grad_()
        sample = loss.draw(torch.Generator()) if isinstance(loss, SampledCrossEntropy) else None
        value = loss(model, leaf, targets, sample)
        value.backward()
        gradient = model.head.weight.grad
        assert gradient is not None
        assert gradient.is_sparse == (sparse and isinstance(loss, SampledCrossEntropy))
        results.append((value.detach(), leaf.grad, gradient.to_dense(), model.head.bias.grad))
    for exact, sampled in zip(*results, strict=True):
        torch.testing.assert_close(sampled, exact, rtol=1e-4, atol=1e-6)


def sampled_cross_entropy(
    loss: SampledCrossEntropy, model: LanguageModel, hidden: torch.Tensor, targets: torch.Tensor, sample: list[int]
) -> torch.Tensor:
    """Return the sampled loss, computed by its definition token by token."""
    losses = []
    rows = hidden.flatten(0, 1)
    for row, those in zip(rows, targets.reshape(len(rows), -1).tolist(), strict=True):
        if those[0] == model.pad_id:
            continue
        logits = model.head.weight @ row + model.head.bias
        others = [logits[one] - loss.log_inclusion[one] for one in sample if one not in those]
        log_z = torch.stack([*logits[sorted(set(those))], *others]).logsumexp(dim=0)
        losses.append(log_z - logits[those] @ target_shares(torch.tensor([those]), loss.text_share))
    return torch.stack(losses).mean()


@in_several_chunks_and_in_one
@in_both_precisions
@with_one_target_and_several
def test_loss_and_gradient_are_those_of_the_sampled_definition(
    target_count: int,
    rows_at_once: int,
    precision: torch.dtype,
    loss_error: float,
    gradient_error: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(projection, "CPU_CHUNK_LOGITS", rows_at_once * (50 + target_count))
    hidden, targets = hidden_and_targets()
    loss = SampledCrossEntropy(UNIGRAM, 50, precision, TEXT_SHARE)
    sample = loss.draw(torch.Generator().manual_seed(5))
    in_sample = torch.isin(targets, sample)
    assert in_sample.any()
    assert not in_sample.all()
    targets = with_targets(targets, target_count)
    results = []
    for by_definition in (True, False):
        model, leaf = language_model(), hidden.clone().requires_grad_()
        if by_definition:
            value = sampled_cross_entropy(loss, model, leaf, targets, sample.tolist())
        else:
            value = loss(model, leaf, targets, sample)
        value.backward()
        results.append((value.detach(), [leaf.grad, model.head.weight.grad, model.head.bias.grad]))
    (expected, expected_gradients), (got, gradients) = results
    assert float(got) == pytest.approx(float(expected), rel=loss_error)
    for one, other in zip(gradients, expected_gradients, strict=True):
        assert one is not None
        assert other is not None
        assert float((one - other).norm() / other.norm()) < gradient_error


def test_only_sampled_and_target_classes_have_a_gradient() -> None:
    hidden, targets = hidden_and_targets()
    model = language_model(sparse=True)
    loss = SampledCrossEntropy(UNIGRAM, 20)
    sample = loss.draw(torch.Generator().manual_seed(5))
    loss(model, hidden, targets, sample).backward()
    gradient = model.head.weight.grad
    assert gradient is not None
    named = set(gradient.coalesce().indices()[0].tolist())
    assert named == set(sample.tolist()) | set(targets.flatten().tolist())
    assert gradient.to_dense()[0].abs().max() == 0  # Row 0 belongs to <pad>, which is never predicted.


@in_each_precision
def test_a_nearly_impossible_target_has_the_loss_of_the_definition(precision: torch.dtype) -> None:
    """The loss of a nearly impossible target is exact, although its probability exp(-150) underflows in float32."""
    hidden, targets = hidden_and_targets()
    model = language_model()
    with torch.no_grad():
        model.head.bias[targets[0, 0]] -= 150.0
    loss = SampledCrossEntropy(UNIGRAM, 50, precision)
    sample = loss.draw(torch.Generator().manual_seed(5))
    with torch.no_grad():
        expected = float(sampled_cross_entropy(loss, model, hidden, targets, sample.tolist()))
        got = float(loss(model, hidden, targets, sample))
    assert expected > 150 / int(targets.ne(0).sum())
    assert got == pytest.approx(expected, rel=1e-3)
