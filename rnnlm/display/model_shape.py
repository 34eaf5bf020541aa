"""The configuration of a model in one line."""

from rnnlm.config.kinds import kind_of
from rnnlm.config.model_config import ModelConfig


def model_shape(model: ModelConfig, members: int = 0) -> str:
    """Return a text such as `Elman network, 1 × 256, tanh, mixed with 5-gram counts`, where 1 × 256 is layers × units.

    `members` is the number of networks in an ensemble, or 0. The first network of an ensemble has the configuration
    `model`.
    """
    counts = [f"mixed with {model.counts}-gram counts"] if model.counts else []
    if members:
        return ", ".join([f"ensemble of {members} networks", *counts])
    kind = kind_of(model.kind)
    if not kind.is_trained:
        return f"{kind.name}, up to {model.counts} tokens"
    parts = [kind.name, f"{model.layers} × {model.units}"]
    if model.kind == "elman":
        parts.append(model.nonlinearity)
        parts += ["diagonal"] if model.recurrence == "diagonal" else []
    parts += ["residual"] if model.is_residual else []
    return ", ".join(parts + counts)
