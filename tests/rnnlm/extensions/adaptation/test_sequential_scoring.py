"""Dynamic evaluation and the cache score each token before they use it, and do not change the model."""

import math

import numpy as np
import pytest
import torch

from rnnlm.config import ModelKind
from rnnlm.extensions.adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.extensions.adaptation.dynamic_evaluation import DynamicModel, measure_gradient_rms
from rnnlm.extensions.adaptation.sequential_scoring import score_in_order, segments
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import mixed
from rnnlm.sequences.segmentation import Mode
from tests.configs import KINDS, random_model
from tests.rnnlm.extensions.adaptation.conftest import VOCABULARY, random_lines, text_of

MODES = pytest.mark.parametrize("mode", ["sentence", "stream"])
DYNAMIC = DynamicConfig(rate=0.2, decay=0.01, segment_length=4)
CACHE = CacheConfig(size=9, theta=0.7, share=0.3)


@MODES
def test_no_score_depends_on_later_text(model: LanguageModel, mode: Mode) -> None:
    lines = random_lines(2)
    changed = [*lines[:7], *random_lines(3)]
    past = sum(len(line) + 1 for line in lines[:7])
    first, second = (
        score_in_order(model, text_of(version, mode), mode, DYNAMIC, CACHE) for version in (lines, changed)
    )
    assert first.model[:past] == pytest.approx(second.model[:past], rel=1e-5)
    assert first.cache[:past] == pytest.approx(second.cache[:past], rel=1e-5)
    assert not np.allclose(first.model[past : past + 5], second.model[past : past + 5])


@pytest.mark.parametrize("place", [0, 3, 10])
def test_a_token_inside_a_segment_is_scored_without_those_after_it(model: LanguageModel, place: int) -> None:
    line = random_lines(4, 1)[0] * 3
    other = [*line[: place + 1], *(4 + (token - 3) % (VOCABULARY - 4) for token in line[place + 1 :])]
    dynamic = DynamicConfig(rate=0.5, segment_length=len(line) + 1)
    texts = (text_of([version], "sentence") for version in (line, other))
    first, second = (score_in_order(model, text, "sentence", dynamic, CACHE) for text in texts)
    assert first.model[: place + 1] == pytest.approx(second.model[: place + 1], rel=1e-5)
    assert first.cache[: place + 1] == pytest.approx(second.cache[: place + 1], rel=1e-5)


@pytest.mark.parametrize("place", [0, 1, 6, 9])
def test_the_mixture_is_a_distribution(model: LanguageModel, place: int) -> None:
    """The probabilities of all possible tokens at `place` add up to 1."""
    line = [5, 7, 5, 5, 9, 4, 7, 5, 11, 7]
    total = 0.0
    for token in range(VOCABULARY):
        walked = score_in_order(model, text_of([[*line[:place], token]], "sentence"), "sentence", DYNAMIC, CACHE)
        total += math.exp(mixed(*walked, CACHE.share)[place])
    assert total == pytest.approx(1.0, rel=1e-5)


@MODES
def test_cache_probabilities_equal_a_slow_loop(model: LanguageModel, mode: Mode) -> None:
    """The cache's p(w) is the sum of exp(theta h · h_i) over all i followed by w, divided by the sum over all i."""
    lines = random_lines(5, 6)
    states: list[torch.Tensor] = []
    words: list[int] = []
    state = None
    for number, line in enumerate(lines):
        first = 2 if number == 0 or mode == "sentence" else 3
        hidden, after = model.hidden(torch.tensor([[first, *line]]), state)
        state = after if mode == "stream" else None
        states += list(hidden[0].detach())
        words += [*line, 3]
    expected = []
    for now in range(1, len(words)):
        weights = {i: math.exp(CACHE.theta * float(states[now] @ states[i])) for i in range(max(0, now - 9), now)}
        followed = sum(weight for i, weight in weights.items() if words[i] == words[now])
        expected.append(followed / sum(weights.values()))
    walked = score_in_order(model, text_of(lines, mode), mode, cache=CACHE)
    assert np.exp(walked.cache[1:]) == pytest.approx(expected, rel=1e-4, abs=1e-9)
    # At the first token, the cache is empty, so the network's probability is returned.
    assert walked.cache[0] == walked.model[0]


@pytest.mark.parametrize("kind", KINDS)
def test_one_learning_step_of_every_kind_follows_the_paper(kind: ModelKind) -> None:
    """The second segment is scored after w ← w - rate * gradient and w ← w + decay * (trained - w)."""
    model = random_model(kind, VOCABULARY)
    lines = [[5, 6, 7], [8, 9, 10]]
    dynamic = DynamicConfig(rate=0.3, decay=0.25, segment_length=4)
    walked = score_in_order(model, text_of(lines, "sentence"), "sentence", dynamic).model
    logits, _ = model(torch.tensor([[2, 5, 6, 7]]))
    torch.nn.functional.cross_entropy(logits[0], torch.tensor([5, 6, 7, 3])).backward()
    with torch.no_grad():
        for weight in model.parameters():
            assert weight.grad is not None
            # The decay of 0.25 reduces the step by a quarter, because the weight equalled `trained` before the step.
            weight -= 0.3 * weight.grad * (1 - 0.25)
        logits, _ = model(torch.tensor([[2, 8, 9, 10]]))
    expected = logits[0].log_softmax(-1)[torch.arange(4), torch.tensor([8, 9, 10, 3])]
    assert walked[4:] == pytest.approx(expected.numpy(), rel=1e-4)
    static = score_in_order(random_model(kind, VOCABULARY), text_of(lines, "sentence"), "sentence").model
    assert np.abs(walked[4:] - static[4:]).max() > 0.05


def test_a_scaled_step_follows_the_paper(model: LanguageModel) -> None:
    """The rate of each weight is divided by r + 0.1, and its decay is multiplied by r, to at most 1.

    r is the weight's relative gradient on the training text. Segments have 4 tokens, so a segment of 3 tokens counts
    three quarters, both in the measurement of r and in the step.
    """
    train = text_of([[7, 7, 5], [4, 10]], "sentence")
    config = DynamicConfig(rate=0.1, decay=0.5, segment_length=4, scaled=True)
    squares = [torch.zeros_like(weight) for weight in model.parameters()]
    for inputs, targets in (([2, 7, 7, 5], [7, 7, 5, 3]), ([2, 4, 10], [4, 10, 3])):
        logits, _ = model(torch.tensor([inputs]))
        loss = torch.nn.functional.cross_entropy(logits[0], torch.tensor(targets)) * len(targets) / 4
        squares = [s + g**2 for s, g in zip(squares, torch.autograd.grad(loss, list(model.parameters())), strict=True)]
    roots = [(square / 2).sqrt() for square in squares]
    mean = torch.cat([root.flatten() for root in roots]).mean()
    gradient_rms = measure_gradient_rms(model, segments(train, "sentence", 4), 4)
    for found, root in zip(gradient_rms, roots, strict=True):
        assert torch.allclose(found, root / mean, rtol=1e-5)

    learner = DynamicModel(model, config, gradient_rms)
    logits, _ = learner.network(torch.tensor([[2, 8, 9]]))
    nll = torch.nn.functional.cross_entropy(logits[0], torch.tensor([8, 9, 3]), reduction="none")
    gradients = torch.autograd.grad(nll.mean(), learner.weights, retain_graph=True)
    learner.learn(nll)
    for now, trained, gradient, r in zip(learner.weights, model.parameters(), gradients, gradient_rms, strict=True):
        step = -0.75 * 0.1 / (r + 0.1) * gradient
        assert torch.allclose(now, trained + step * (1 - 0.75 * (0.5 * r).clamp(max=1.0)), rtol=1e-5, atol=1e-7)


def test_sequential_scoring_leaves_the_model_unchanged(model: LanguageModel) -> None:
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    score_in_order(model, text_of(random_lines(7), "stream"), "stream", DYNAMIC, CACHE)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
