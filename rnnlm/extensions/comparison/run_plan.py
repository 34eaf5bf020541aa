"""Plan the runs of a comparison: one configuration per kind of model, tuning trials, and one run per seed.

The configurations have about the same number of parameters.
"""

import random
from typing import Any

from rnnlm.config import ModelConfig, ModelKind, PipelineConfig
from rnnlm.config.kinds import kind_of
from rnnlm.config.moved_settings import flatten, nest
from rnnlm.errors import ConfigError
from rnnlm.extensions.comparison.comparison_config import CompareConfig
from rnnlm.models.parameter_count import count_parameters, nearest_size
from rnnlm.storage.records import DatasetRecord, Record

# The largest difference of a model's number of parameters from the budget, as a fraction of the budget.
PARAMETER_TOLERANCE = 0.02
# The learning rate of a random trial is drawn from the range [rate / RATE_FACTOR, rate * RATE_FACTOR].
RATE_FACTOR = 4.0
CURVE_POINTS = 10  # The minimum number of validations in each run, which are the points of its learning curve.
DROPOUTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


class TunedSettings(Record):
    """The settings that tuning trials vary."""

    learning_rate: float
    dropout_inputs: float
    dropout_outputs: float


def matched_configs(config: CompareConfig, dataset: DatasetRecord) -> dict[ModelKind, PipelineConfig]:
    """Return a configuration per kind of model, with matched numbers of parameters and no mixing with n-grams.

    Raise ConfigError if they cannot be matched. A kind without a recurrent matrix U has no recurrent dropout.
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
    """Return the configuration of another kind, with the hidden_size closest to the budget of parameters.

    Settings that only an Elman network has are left out for other kinds. The number of heads of a Transformer or an
    xLSTM must divide the number of units. If no size fits, the number of heads is reduced. Raise ConfigError if no size
    comes within PARAMETER_TOLERANCE of the budget.
    """
    heads, units_per_head = config.heads, kind_of(kind).units_per_head
    if config.input == "one-hot" and units_per_head:
        raise ConfigError(
            f"{kind}: has no one-hot input;\nset model.input=embedding, or leave this kind out of --models"
        )
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
    """Return a validated configuration with changed settings. The keys of `settings` are dotted paths."""
    return PipelineConfig.model_validate(nest(flatten(pipeline.model_dump()) | settings))


def with_token_budget(pipeline: PipelineConfig, tokens: int, dataset: DatasetRecord) -> PipelineConfig:
    """Return the configuration with about `tokens` trained tokens and the number of epochs that they need."""
    epochs = -(-tokens // max(1, dataset.predicted_tokens["train"]))
    return changed(pipeline, {"training.maximum_tokens": tokens, "training.epochs": epochs})


def with_curve(pipeline: PipelineConfig) -> PipelineConfig:
    """Return the configuration with at least CURVE_POINTS validations."""
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
    """Return the number of tokens on which a model is trained, given its training speed."""
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
    """Return `count` settings to try for a model: the configured settings first, then random ones.

    The learning rate is drawn on a logarithmic scale (random search, Bergstra and Bengio 2012), from the same range of
    factors for every kind of model. If no rate is configured, the factors apply to the default for the model's kind and
    width.
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
