"""Conversion of dotted paths of settings from and to nested dictionaries, and upgrades of moved and removed fields."""

from collections.abc import Mapping
from typing import Any

MOVED = {  # A map from the former path of each moved field to its current path.
    "sequences.maximum_leakage": "gates.leakage_stop_at",
    "training.loss": "training.loss.kind",
    "training.sampled_classes": "training.loss.sampled_classes",
    "training.learning_rate": "training.optimizer.learning_rate",
    "training.weight_decay": "training.optimizer.weight_decay",
    "training.clip_norm": "training.optimizer.clip_norm",
    "training.schedule": "training.schedule.kind",
    "training.warmup_share": "training.schedule.warmup_share",
    "training.plateau_factor": "training.schedule.plateau_factor",
    "training.plateau_patience": "training.schedule.plateau_patience",
    "training.dropout_words": "training.dropout.words",
    "training.dropout_inputs": "training.dropout.inputs",
    "training.dropout_layers": "training.dropout.layers",
    "training.dropout_outputs": "training.dropout.outputs",
    "training.dropout_recurrent": "training.dropout.recurrent",
    "training.averaging": "training.averaging.kind",
    "training.averaging_start": "training.averaging.start_share",
    "training.averaging_every": "training.averaging.every_steps",
    "training.averaging_decay": "training.averaging.decay",
    "training.evaluations": "training.validation.evaluations",
    "training.evaluation_tokens": "training.validation.tokens",
    "training.early_stopping_patience": "training.validation.early_stopping_patience",
    "training.checkpoint_every_seconds": "training.checkpoints.every_seconds",
    "training.checkpoints_kept": "training.checkpoints.kept",
    "training.explosion_factor": "training.divergence.explosion_factor",
    "training.divergence_retries": "training.divergence.retries",
    "training.processes": "training.distributed.processes",
    "training.nodes": "training.distributed.nodes",
    "training.rendezvous": "training.distributed.rendezvous",
    "training.restarts": "training.distributed.restarts",
    "training.reader_processes": "training.feed.reader_processes",
    "training.resident_tokens": "training.feed.resident_tokens",
}
REMOVED_SETTINGS = ("training.cuda_graphs",)  # Removed settings, whose values rnnlm now chooses automatically.


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Convert {"training": {"optimizer": {"clip_norm": 1.0}}} to {"training.optimizer.clip_norm": 1.0}."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Convert dotted paths to nested dictionaries. This is the inverse of flatten()."""
    values: dict[str, Any] = {}
    for path, value in flat.items():
        *sections, field = path.split(".")
        section = values
        for name in sections:
            section = section.setdefault(name, {})
        section[field] = value
    return values


def upgrade(values: Any) -> Any:
    """Return a nested configuration of an older version with moved fields renamed and removed fields left out.

    Such configurations are in run folders and deployments. If a field is set at both paths, the value at the current
    path is used. A value that is not a dictionary is returned unchanged.
    """
    if not isinstance(values, dict):
        return values
    flat = flatten(values)
    kept = {path: value for path, value in flat.items() if path not in REMOVED_SETTINGS}
    moved = {MOVED[path]: kept.pop(path) for path in list(kept) if path in MOVED and is_plain(kept[path])}
    return nest(moved | kept) if moved or len(kept) < len(flat) else values


def is_plain(value: Any) -> bool:
    """Return True for a value that is not a section.

    training.loss, training.schedule and training.averaging were plain values and are now sections.
    """
    return isinstance(value, str | int | float | None)
