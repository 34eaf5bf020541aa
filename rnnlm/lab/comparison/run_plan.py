"""Which runs a comparison consists of: the matched configuration of each kind, its tuning trials, its seeds."""

import random

from rnnlm.config import ModelConfig, ModelKind, PipelineConfig
from rnnlm.lab.comparison.comparison_config import CompareConfig
from rnnlm.lab.comparison.parameter_matching import match_parameters
from rnnlm.models.kinds import kind_of
from rnnlm.models.parameter_count import count_parameters
from rnnlm.storage.records import DatasetRecord, Record

RATE_FACTOR = 4.0  # trials draw learning rates from a quarter of the configured one to four times it
CURVE_POINTS = 10  # validations of each run, at least
DROPOUTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


class TunedSettings(Record):
    """The settings that tuning trials vary."""

    learning_rate: float
    dropout_inputs: float
    dropout_outputs: float


def matched_configs(config: CompareConfig, dataset: DatasetRecord) -> dict[ModelKind, PipelineConfig]:
    """The pipeline's configuration for each kind, with parameters matched. ConfigError if they cannot be."""
    model, size = config.pipeline.model, dataset.vocabulary_size
    is_given = config.match == "parameters" and config.budget is not None
    budget = config.budget if is_given and config.budget else count_parameters(model, size).total
    return {kind: of_kind(config.pipeline, kind, match_parameters(model, kind, size, budget)) for kind in config.kinds}


def of_kind(pipeline: PipelineConfig, kind: ModelKind, model: ModelConfig) -> PipelineConfig:
    """The same with another model, a network alone; a kind without U has no recurrent dropout."""
    training = pipeline.training
    if not kind_of(kind).has_recurrent_matrix:
        dropout = training.dropout.model_copy(update={"recurrent": 0.0})
        training = training.model_copy(update={"dropout": dropout})
    return pipeline.model_copy(update={"model": model.model_copy(update={"counts": 0}), "training": training})


def with_token_budget(pipeline: PipelineConfig, tokens: int, dataset: DatasetRecord) -> PipelineConfig:
    """The same, trained on about so many tokens, over as many epochs as that takes."""
    epochs = -(-tokens // max(1, dataset.predicted_tokens["train"]))
    training = pipeline.training.model_copy(update={"maximum_tokens": tokens, "epochs": epochs})
    return pipeline.model_copy(update={"training": training})


def token_budget(config: CompareConfig, dataset: DatasetRecord, tokens_per_second: float) -> int:
    """Tokens to train a model on."""
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
    """count settings to try for a model: first the configured ones, then random ones.

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


def with_curve(pipeline: PipelineConfig) -> PipelineConfig:
    """The same, validated often enough for a curve."""
    validation = pipeline.training.validation
    often = validation.model_copy(update={"evaluations": max(CURVE_POINTS, validation.evaluations)})
    return pipeline.model_copy(update={"training": pipeline.training.model_copy(update={"validation": often})})


def with_settings(pipeline: PipelineConfig, tuned: TunedSettings, seed: int) -> PipelineConfig:
    training = pipeline.training
    optimizer = training.optimizer.model_copy(update={"learning_rate": tuned.learning_rate})
    dropout = training.dropout.model_copy(update={"inputs": tuned.dropout_inputs, "outputs": tuned.dropout_outputs})
    changed = training.model_copy(update={"optimizer": optimizer, "dropout": dropout, "seed": seed})
    return pipeline.model_copy(update={"training": changed})
