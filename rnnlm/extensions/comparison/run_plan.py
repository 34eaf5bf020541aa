"""The runs of a comparison: the configuration of each kind with matched parameters, its tuning trials, its seeds."""

import random
from typing import Any

from rnnlm.config import ModelConfig, ModelKind, PipelineConfig
from rnnlm.config.kinds import kind_of
from rnnlm.config.moved_settings import flatten, nest
from rnnlm.errors import ConfigError
from rnnlm.extensions.comparison.comparison_config import CompareConfig
from rnnlm.models.parameter_count import count_parameters, nearest_size
from rnnlm.storage.records import DatasetRecord, Record

PARAMETER_TOLERANCE = 0.02  # relative
RATE_FACTOR = 4.0  # trials draw learning rates from a quarter of the configured one to four times it
CURVE_POINTS = 10  # validations of each run, at least
DROPOUTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


class TunedSettings(Record):
    """The settings that tuning trials vary."""

    learning_rate: float
    dropout_inputs: float
    dropout_outputs: float


def matched_configs(config: CompareConfig, dataset: DatasetRecord) -> dict[ModelKind, PipelineConfig]:
    """Return the configuration of each kind's run: a network alone, with parameters matched.

    Raise ConfigError if they cannot be. A kind without a recurrent matrix U has no recurrent dropout.
    """
    pipeline, size = config.pipeline, dataset.vocabulary_size
    is_given = config.match == "parameters" and config.budget is not None
    budget = config.budget if is_given and config.budget else count_parameters(pipeline.model, size).total
    configs: dict[ModelKind, PipelineConfig] = {}
    for kind in config.kinds:
        model = match_parameters(pipeline.model, kind, size, budget)
        settings: dict[str, Any] = {"model.counts": 0}
        if not kind_of(kind).has_recurrent_matrix:
            settings["training.dropout.recurrent"] = 0.0
        configs[kind] = changed(pipeline.model_copy(update={"model": model}), settings)
    return configs


def match_parameters(config: ModelConfig, kind: ModelKind, vocabulary_size: int, budget: int) -> ModelConfig:
    """Return the configuration with another kind and the hidden_size whose parameters are nearest to the budget.

    Settings that only an Elman network has are left out for other kinds. The heads of a Transformer and an xLSTM divide
    its units: if no size fits, it gets fewer heads. Raise ConfigError if no size is within PARAMETER_TOLERANCE.
    """
    heads, units_per_head = config.heads, kind_of(kind).units_per_head
    if config.input == "one-hot" and units_per_head:
        raise ConfigError(f"{kind}: has no one-hot input;\nset model.input=embedding, or leave it out of --models")
    while True:
        step = heads * units_per_head if units_per_head else 1
        model = config.of_kind(kind, hidden_size=2 * heads, heads=heads)
        nearest = nearest_size(model, vocabulary_size, budget, step)
        found = count_parameters(nearest, vocabulary_size).total
        if abs(found - budget) <= PARAMETER_TOLERANCE * budget:
            return nearest
        if not units_per_head or heads == 1:
            raise ConfigError(
                f"{kind}: no hidden_size gives {budget:,} parameters within {PARAMETER_TOLERANCE:.0%}; the nearest, "
                f"{nearest.hidden_size}, gives {found:,}.\nChange --budget or the size of the vocabulary."
            )
        heads = max(divisor for divisor in range(1, heads) if heads % divisor == 0)


def changed(pipeline: PipelineConfig, settings: dict[str, Any]) -> PipelineConfig:
    """Return the configuration with other settings, given by their dotted paths, and validated again."""
    return PipelineConfig.model_validate(nest(flatten(pipeline.model_dump()) | settings))


def with_token_budget(pipeline: PipelineConfig, tokens: int, dataset: DatasetRecord) -> PipelineConfig:
    """Return the same configuration, trained on about so many tokens, over as many epochs as that takes."""
    epochs = -(-tokens // max(1, dataset.predicted_tokens["train"]))
    return changed(pipeline, {"training.maximum_tokens": tokens, "training.epochs": epochs})


def with_curve(pipeline: PipelineConfig) -> PipelineConfig:
    """Return the same configuration, validated often enough for a curve."""
    evaluations = max(CURVE_POINTS, pipeline.training.validation.evaluations)
    return changed(pipeline, {"training.validation.evaluations": evaluations})


def with_settings(pipeline: PipelineConfig, tuned: TunedSettings, seed: int) -> PipelineConfig:
    settings = {
        "optimizer.learning_rate": tuned.learning_rate,
        "dropout.inputs": tuned.dropout_inputs,
        "dropout.outputs": tuned.dropout_outputs,
        "seed": seed,
    }
    return changed(pipeline, {f"training.{path}": value for path, value in settings.items()})


def token_budget(config: CompareConfig, dataset: DatasetRecord, tokens_per_second: float) -> int:
    """Return the number of tokens to train a model on."""
    if config.budget is not None and config.match == "tokens":
        return config.budget
    if config.budget is not None and config.match == "seconds":
        return max(1, round(config.budget * tokens_per_second))
    training = config.pipeline.training
    whole = training.epoch_count * dataset.predicted_tokens["train"]
    return min(whole, training.maximum_tokens or whole)


def configured_settings(pipeline: PipelineConfig) -> TunedSettings:
    model, training = pipeline.model, pipeline.training
    dropout, rate = training.dropout.resolved(), training.optimizer.peak_rate(model.kind, model.units)
    return TunedSettings(learning_rate=rate, dropout_inputs=dropout.inputs, dropout_outputs=dropout.outputs)


def trial_settings(pipeline: PipelineConfig, count: int) -> list[TunedSettings]:
    """Return `count` settings to try for a model. The first are the configured ones, the others are drawn at random.

    Random search with the learning rate drawn on a logarithmic scale (Bergstra and Bengio 2012), with the same factors
    for every kind. Without a configured rate they are factors of the default for the model's kind and width.
    """
    configured = configured_settings(pipeline)
    rate = configured.learning_rate
    generator = random.Random(pipeline.training.seed)
    drawn = [
        TunedSettings(
            learning_rate=float(f"{rate * RATE_FACTOR ** generator.uniform(-1, 1):.2g}"),
            dropout_inputs=generator.choice(DROPOUTS),
            dropout_outputs=generator.choice(DROPOUTS),
        )
        for _ in range(1, count)
    ]
    return [configured, *drawn][:count]
