"""A TrainingLoop over a few batches in memory, whose validation returns given perplexities."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from rnnlm.losses.loss import Loss, exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.training.history import Measurement
from rnnlm.training.training_loop import TrainingLoop
from tests.configs import plain_model, plain_training

VOCABULARY = 12
CONSTANT_RATE = {"optimizer.learning_rate": 0.01, "schedule.kind": "constant", "schedule.warmup_share": 0.0}


def network(**settings: Any) -> LanguageModel:
    """Return a small network. `settings` are fields of the `model` section."""
    plain = {"hidden_size": 24, "head_bias": "zero", "attention_window": 6}
    return build_model(plain_model(plain | settings), VOCABULARY, seed=0)


def batch(*rows: Sequence[int], carries_state: bool = False) -> Batch:
    """Return a batch of token ids, padded on the right."""
    length = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])
    targets = ids[:, 1:]
    return Batch(ids[:, :-1], targets, carries_state, int((targets != 0).sum()))


def make_loop(
    model: LanguageModel,
    batches: list[Batch],
    settings: Mapping[str, Any] | None = None,
    loss: Loss = exact_cross_entropy,
    perplexities: Mapping[int, float] | None = None,
    record: Callable[[Measurement], None] = lambda measurement: None,
    **arguments: Any,
) -> TrainingLoop:
    """Return a training loop.

    `settings` are those of training. `perplexities` maps numbers of steps to the results of validation. If the result
    after the last step is not given, it is 5.
    """
    found = perplexities or {}
    config = plain_training(CONSTANT_RATE | dict(settings or {}))
    loop = TrainingLoop(
        model,
        config,
        loss,
        lambda first: batches[first:],
        lambda step: found.get(step, 5.0),
        record,
        len(batches),
        **arguments,
    )
    loop.validation_steps = frozenset(found)
    return loop
