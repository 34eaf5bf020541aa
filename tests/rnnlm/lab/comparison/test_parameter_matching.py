"""Sizes are chosen so that every kind has the same number of parameters."""

import pytest

from rnnlm.config import ModelConfig, ModelKind
from rnnlm.errors import ConfigError
from rnnlm.lab.comparison.parameter_matching import PARAMETER_TOLERANCE, match_parameters
from rnnlm.models.parameter_count import count_parameters
from tests.configs import KINDS


def test_the_parameters_of_an_elman_network_are_counted_by_hand() -> None:
    """50 · 8 for the tied embedding, 8 · 8 each for W and U, 8 for b, and 50 for the bias of the head."""
    counted = count_parameters(ModelConfig(hidden_size=8), 50)
    assert (counted.total, counted.embedding) == (50 * 8 + 2 * 8 * 8 + 8 + 50, 50 * 8)


def test_both_matrices_of_untied_embeddings_count() -> None:
    counted = count_parameters(ModelConfig(hidden_size=8, tie_embeddings=False), 50)
    assert counted.embedding == 2 * 50 * 8


def test_an_embedding_that_is_not_trained_does_not_count() -> None:
    config = ModelConfig(hidden_size=8, input="one-hot", tie_embeddings=False)
    assert count_parameters(config, 50).embedding == 8 * 50


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
def test_every_kind_has_as_many_parameters_as_the_budget(kind: ModelKind, layers: int) -> None:
    matched = match_parameters(ModelConfig(layers=layers), kind, 10_000, 5_000_000)
    assert matched.kind == kind
    assert abs(count_parameters(matched, 10_000).total - 5_000_000) <= PARAMETER_TOLERANCE * 5_000_000


def test_settings_of_elman_networks_are_left_out_for_other_kinds() -> None:
    config = ModelConfig(residual=True, layers=2, nonlinearity="relu")
    assert match_parameters(config, "lstm", 1_000, 500_000).nonlinearity == "tanh"
    assert match_parameters(config, "elman", 1_000, 500_000).nonlinearity == "relu"


@pytest.mark.parametrize("kind", ["transformer", "xlstm"])
def test_fewer_heads_make_a_small_budget_fit(kind: ModelKind) -> None:
    """With 4,000 untied tokens a step of 8 units is 6 % of a network of 60."""
    config = ModelConfig(hidden_size=64, tie_embeddings=False)
    budget = count_parameters(config, 4_000).total
    matched = match_parameters(config, kind, 4_000, budget)
    assert matched.heads < config.heads or kind == "xlstm"
    assert abs(count_parameters(matched, 4_000).total - budget) <= PARAMETER_TOLERANCE * budget
    ModelConfig.model_validate(matched.model_dump())  # the heads divide the units


def test_a_budget_that_no_size_meets_is_told() -> None:
    with pytest.raises(ConfigError, match=r"no hidden_size gives 7,000 parameters within 2%"):
        match_parameters(ModelConfig(), "elman", 2_000, 7_000)
