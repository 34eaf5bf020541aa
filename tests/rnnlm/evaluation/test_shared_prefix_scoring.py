"""The softmax of each distinct context is computed only once. The losses agree with their definition."""

import numpy as np
import pytest
import torch

from rnnlm.config import ModelKind
from rnnlm.evaluation import batch_losses, full_softmax, shared_prefix_scoring
from rnnlm.evaluation.full_softmax import LogNormalizer
from rnnlm.evaluation.shared_prefix_scoring import first_with_same_context, nll_of_rows_sharing_prefixes
from rnnlm.models.initialization import initialize
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.segmentation import TokenRows, rows_from_lists
from tests.configs import KINDS, new_model, plain_model, random_model

VOCABULARY = 50


def elman_model() -> LanguageModel:
    """Return a model whose weights are four times the initial ones, so that its predictions are far from uniform."""
    model = new_model(VOCABULARY, 12, layers=2)
    initialize(model, plain_model({"recurrent_initialization": "orthogonal"}), torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.head.weight.mul_(4.0)
        model.head.bias.copy_(torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(1)))
    return model.eval()


def random_rows() -> TokenRows:
    """Return rows for scoring. Some begin alike, some are equal, one has no token to predict, and one is long."""
    draw = np.random.default_rng(0)
    rows = [[2, *draw.integers(4, 8, length).tolist(), 3] for length in (1, 2, 2, 3, 5, 5, 8, 3, 90, 0)]
    return rows_from_lists([*rows, rows[4], rows[8], [2]])


def nll_by_definition(model: LanguageModel, rows: TokenRows) -> list[float]:
    """Return the losses row by row, computed with all logits."""
    nll: list[float] = []
    for index in range(len(rows)):
        row = torch.from_numpy(rows.token_ids[rows.offsets[index] : rows.offsets[index + 1]].astype(np.int64))
        if len(row) > 1:
            logits, _ = model(row[None, :-1])
            nll += torch.nn.functional.cross_entropy(logits[0], row[1:], reduction="none").tolist()
    return nll


@pytest.mark.parametrize("batch_size", [3, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_every_kind_are_those_of_the_definition(
    kind: ModelKind, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows = random_model(kind, VOCABULARY), random_rows()
    expected = nll_by_definition(model, rows)
    assert nll_of_rows_sharing_prefixes(model, rows, batch_size) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    monkeypatch.setattr(batch_losses, "EVALUATION_WINDOW", 5)
    monkeypatch.setattr(shared_prefix_scoring, "MAX_SHARED_PREFIX", 3)
    for name, value in {"BLOCK_ROWS": 4, "BLOCK_CLASSES": 7}.items():
        monkeypatch.setattr(full_softmax, name, value)
    assert nll_of_rows_sharing_prefixes(model, rows, batch_size) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_equal_contexts_are_found_as_by_comparing_all_pairs() -> None:
    rows = random_rows()
    seen: dict[tuple[int, ...], int] = {}
    expected: list[int] = []
    for index in range(len(rows)):
        row = rows.token_ids[rows.offsets[index] : rows.offsets[index + 1]].tolist()
        for end in range(1, len(row)):
            deep = end > shared_prefix_scoring.MAX_SHARED_PREFIX
            expected.append(len(expected) if deep else seen.setdefault(tuple(row[:end]), len(expected)))
    assert first_with_same_context(rows).tolist() == expected
    assert len(set(expected)) < len(expected)


@pytest.mark.parametrize("larger", [1.0, 100.0, -100.0])
def test_probabilities_sum_to_one_however_large_the_logits(larger: float) -> None:
    """The probabilities of all tokens sum to 1 even if exp(logit) is inf or 0 in float32."""
    model = elman_model()
    with torch.no_grad():
        model.head.weight.mul_(abs(larger))
        model.head.bias.add_(min(0.0, 2 * larger))
    hidden = torch.randn(9, 12, generator=torch.Generator().manual_seed(2))
    logits = model.logits(hidden)
    total = (logits - LogNormalizer(model)(hidden)[:, None]).exp().sum(dim=1)
    assert total.tolist() == pytest.approx([1.0] * 9, rel=1e-4)


def test_rare_classes_in_bfloat16_change_little_and_nothing_where_all_are_frequent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Computing rare classes in bfloat16 changes the losses little, and not at all if every class is frequent.

    The frequencies of the classes are those of words (Zipf 1935), in random order.
    """
    draw = torch.Generator().manual_seed(3)
    model = new_model(4_000, 64).eval()
    with torch.no_grad():
        model.head.weight.normal_(std=0.3, generator=draw)
        model.head.bias.copy_(-(1.0 + torch.randperm(4_000, generator=draw)).log())
    hidden = torch.randn(500, 64, generator=draw).tanh()
    expected = model.logits(hidden).logsumexp(dim=1).detach()

    def errors(tail: torch.dtype) -> torch.Tensor:
        return LogNormalizer(model, tail)(hidden) - expected

    assert errors(torch.float32).abs().max() < 1e-5
    few_exact = errors(torch.bfloat16)
    assert few_exact.abs().max() < 0.01
    assert few_exact.mean().abs() < 2e-4
    monkeypatch.setattr(full_softmax, "EXACT_CLASSES", 0)
    assert errors(torch.bfloat16).square().mean() > 4 * few_exact.square().mean()
    monkeypatch.setattr(full_softmax, "EXACT_CLASSES", 4_000)
    assert errors(torch.bfloat16).abs().max() < 1e-5


def test_rows_without_predictions_have_no_losses() -> None:
    model = elman_model()
    assert nll_of_rows_sharing_prefixes(model, rows_from_lists([]), 4).shape == (0,)
    assert nll_of_rows_sharing_prefixes(model, rows_from_lists([[2], [2]]), 4).shape == (0,)
