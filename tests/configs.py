"""Configurations of a plain model and plain training for tests. Settings are given by their dotted paths."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from rnnlm.config import ModelConfig, ModelKind, PipelineConfig, TrainingConfig
from rnnlm.config.moved_settings import flatten, nest

if TYPE_CHECKING:
    from rnnlm.models.language_model import LanguageModel

KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
PLAIN = {
    "tokenizer.kind": "word",
    "model.hidden_size": 128,
    "model.recurrent_initialization": "orthogonal",
    "model.tie_embeddings": False,
    "training.epochs": 1,
    "training.batch_size": 32,
    "training.temperature_scaling": False,
    "training.loss.kind": "exact",
    "training.schedule.kind": "linear",
    "training.dropout.inputs": 0.0,
    "training.dropout.outputs": 0.0,
}


def plain_config(settings: Mapping[str, Any]) -> PipelineConfig:
    return PipelineConfig.model_validate(nest(PLAIN | dict(settings)))


def plain_training(settings: Mapping[str, Any] | None = None) -> TrainingConfig:
    """Return the settings of training.

    The paths in `settings` are below `training`, such as optimizer.learning_rate.
    """
    return plain_config({f"training.{path}": value for path, value in (settings or {}).items()}).training


def plain_model(settings: Mapping[str, Any] | None = None) -> ModelConfig:
    """Return the settings of a model. `settings` are fields of the `model` section."""
    return plain_config({f"model.{field}": value for field, value in (settings or {}).items()}).model


def new_model(vocabulary_size: int, hidden_size: int, **settings: Any) -> "LanguageModel":
    """Return an untied model with initial weights and an output bias of zero. `settings` are fields of `model`."""
    # This import is here, because it needs torch, and conftest.py must set environment variables before that.
    from rnnlm.models.model_factory import build_model

    plain = {"hidden_size": hidden_size, "tie_embeddings": False, "head_bias": "zero"}
    return build_model(plain_model(plain | settings), vocabulary_size, seed=0)


def random_model(kind: ModelKind, vocabulary_size: int, **settings: Any) -> "LanguageModel":
    """Return a model of two tied layers whose random weights give different texts clearly different losses.

    `settings` are passed to new_model(). An IndRNN has smaller weights, because its states are unbounded.
    """
    import torch

    plain = {"kind": kind, "layers": 2, "heads": 2, "attention_window": 8, "tie_embeddings": True}
    model = new_model(vocabulary_size, 16, **plain | settings)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 1.0 if name == "embedding.weight" else 0.1 if kind == "ind-rnn" else 0.3
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
        model.embedding.weight[model.pad_id] = 0.0
    return model.eval()


def changed(config: PipelineConfig, settings: Mapping[str, Any]) -> PipelineConfig:
    """Return a validated configuration with some changed settings."""
    return PipelineConfig.model_validate(nest(flatten(config.model_dump()) | dict(settings)))
