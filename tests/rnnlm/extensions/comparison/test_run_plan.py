"""The configurations, trials and seeds of a comparison are planned correctly."""

import pytest

from rnnlm.config import ModelConfig, ModelKind, PipelineConfig
from rnnlm.config.kinds import kind_of
from rnnlm.errors import ConfigError
from rnnlm.extensions.comparison.comparison_config import CompareConfig
from rnnlm.extensions.comparison.run_plan import (
    PARAMETER_TOLERANCE,
    configured_settings,
    match_parameters,
    matched_configs,
    token_budget,
    trial_settings,
    with_settings,
    with_token_budget,
)
from rnnlm.models.parameter_count import count_parameters
from rnnlm.storage.records import DatasetRecord
from tests.configs import KINDS, changed, plain_config

PIPELINE = plain_config({"training.epochs": 2, "training.optimizer.learning_rate": 0.004})


def test_recurrent_dropout_is_for_kinds_with_a_recurrent_matrix(toy_dataset: DatasetRecord) -> None:
    pipeline = changed(PIPELINE, {"training.dropout.recurrent": 0.5})
    configs = matched_configs(CompareConfig(pipeline=pipeline, models=("elman", "min-gru")), toy_dataset)
    assert configs["elman"].training.dropout.recurrent == 0.5
    assert configs["min-gru"].training.dropout.recurrent == 0.0
    for config in configs.values():
        # The configuration does not change when it is stored in a run's folder and read back.
        assert PipelineConfig.model_validate(config.model_dump()) == config


def test_the_token_budget_follows_the_matched_quantity(toy_dataset: DatasetRecord) -> None:
    one_epoch = toy_dataset.predicted_tokens["train"]
    assert token_budget(CompareConfig(pipeline=PIPELINE), toy_dataset, 500.0) == 2 * one_epoch
    assert token_budget(CompareConfig(pipeline=PIPELINE, match="tokens", budget=700), toy_dataset, 500.0) == 700
    assert token_budget(CompareConfig(pipeline=PIPELINE, match="seconds", budget=3), toy_dataset, 500.0) == 1_500
    training = with_token_budget(PIPELINE, 3 * one_epoch - 1, toy_dataset).training
    assert (training.maximum_tokens, training.epochs) == (3 * one_epoch - 1, 3)


def test_trials_are_drawn_around_each_kinds_default_rate() -> None:
    wide, gru = (
        changed(PIPELINE, {"training.optimizer.learning_rate": None, "model.kind": kind, "model.hidden_size": 4_096})
        for kind in ("elman", "gru")
    )
    assert configured_settings(wide).learning_rate == 0.0005
    assert configured_settings(gru).learning_rate == 0.004
    factors = [
        [trial.learning_rate / rate for trial in trial_settings(one, 9)] for one, rate in ((wide, 0.0005), (gru, 0.004))
    ]
    # The factors differ only by the rounding of the learning rates.
    assert factors[0] == pytest.approx(factors[1], rel=0.05)


def test_settings_and_seed_reach_training() -> None:
    trial = trial_settings(PIPELINE, 2)[1]
    training = with_settings(PIPELINE, trial, seed=7).training
    assert training.optimizer.learning_rate == trial.learning_rate
    assert (training.dropout.inputs, training.dropout.outputs) == (trial.dropout_inputs, trial.dropout_outputs)
    assert training.seed == 7


def test_a_budget_of_tokens_or_seconds_is_required() -> None:
    with pytest.raises(ValueError, match="match=seconds needs a budget"):
        CompareConfig(match="seconds")


@pytest.mark.parametrize(
    ("settings", "embedding"),
    [({}, 50 * 8), ({"tie_embeddings": False}, 2 * 50 * 8), ({"input": "one-hot", "tie_embeddings": False}, 50 * 8)],
)
def test_parameters_are_counted_as_by_hand(settings: dict[str, object], embedding: int) -> None:
    """W and U have 8 · 8 parameters each, b has 8, and the output bias has 50. One-hot inputs are not trained."""
    counted = count_parameters(ModelConfig(hidden_size=8, **settings), 50)
    assert counted.embedding == embedding
    if "input" not in settings:
        assert counted.total == embedding + 2 * 8 * 8 + 8 + 50


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
def test_every_kind_has_as_many_parameters_as_the_budget(kind: ModelKind, layers: int) -> None:
    matched = match_parameters(ModelConfig(layers=layers), kind, 10_000, 5_000_000)
    assert matched.kind == kind
    assert abs(count_parameters(matched, 10_000).total - 5_000_000) <= PARAMETER_TOLERANCE * 5_000_000


@pytest.mark.parametrize("kind", ["transformer", "xlstm"])
def test_fewer_heads_meet_a_small_budget(kind: ModelKind) -> None:
    """The number of heads is reduced if no multiple of it comes close enough to the parameter budget.

    With 4,000 untied tokens, 8 more units change the number of parameters of a network of 60 units by 6 %, which is
    more than the tolerance.
    """
    config = ModelConfig(hidden_size=64, tie_embeddings=False)
    budget = count_parameters(config, 4_000).total
    matched = match_parameters(config, kind, 4_000, budget)
    assert matched.heads < config.heads or kind == "xlstm"
    assert abs(count_parameters(matched, 4_000).total - budget) <= PARAMETER_TOLERANCE * budget
    # The validation checks that the number of heads divides the number of units.
    ModelConfig.model_validate(matched.model_dump())


@pytest.mark.parametrize("kind", ["transformer", "xlstm"])
def test_kinds_without_one_hot_input_are_refused_by_name(kind: ModelKind) -> None:
    config = ModelConfig(input="one-hot", tie_embeddings=False)
    with pytest.raises(ConfigError, match=f"{kind}: has no one-hot input;\nset model.input=embedding"):
        match_parameters(config, kind, 100, 500_000)


@pytest.mark.parametrize("residual", [True, False])
def test_kinds_that_may_be_residual_keep_the_setting(residual: bool) -> None:
    for kind in KINDS:
        model = ModelConfig(layers=2, residual=residual).of_kind(kind)
        assert model.is_residual == (kind_of(kind).may_be_residual and residual)


def test_a_budget_that_no_size_meets_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no hidden_size gives 7,000 parameters within 2%"):
        match_parameters(ModelConfig(), "elman", 2_000, 7_000)
