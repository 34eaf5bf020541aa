"""Measure how long networks of different kinds, nonlinearities and initializations remember a symbol.

`rnnlm probe echo` prints the results.

The loss is computed only at the cue, `distance` steps after the symbol. Hence a network learns the task only if
gradients reach back that far.
"""

import logging
from collections.abc import Iterator
from itertools import product

import torch

from rnnlm.config import ModelConfig
from rnnlm.config.kinds import kind_of
from rnnlm.extensions.probes.probe_config import EchoConfig
from rnnlm.extensions.probes.probe_records import EchoScore
from rnnlm.extensions.probes.probe_training import accuracy, fit
from rnnlm.extensions.probes.synthetic_tasks import FIRST_SYMBOL, echo_batch
from rnnlm.models.model_factory import build_model

logger = logging.getLogger(__name__)
TEST_ROWS = 1_000


def measure_echo(config: EchoConfig) -> list[EchoScore]:
    """Train and test a small model for each network and distance."""
    scores = []
    for network, distance in product(echo_networks(config), config.distances):
        score = echo_score(config, network, distance)
        scores.append(score)
        logger.info("probe echo: %s, distance %d: %.0f%% correct", score.network, distance, 100 * score.accuracy)
    return scores


def echo_networks(config: EchoConfig) -> Iterator[ModelConfig]:
    """Yield one network of each kind. Elman networks have all combinations of nonlinearity and initialization."""
    plain = ModelConfig(hidden_size=config.hidden_size, input="one-hot", tie_embeddings=False, head_bias="zero")
    for kind in config.kinds:
        if kind != "elman":
            # A kind with heads adds its layers' outputs to its input, which is therefore an embedding.
            has_heads = kind_of(kind).units_per_head > 0
            yield plain.of_kind(kind, input="embedding" if has_heads else "one-hot")
            continue
        for nonlinearity, initialization in product(config.nonlinearities, config.initializations):
            yield plain.model_copy(update={"nonlinearity": nonlinearity, "recurrent_initialization": initialization})


def echo_score(config: EchoConfig, settings: ModelConfig, distance: int) -> EchoScore:
    """Train a model on new rows in every step, and test it on rows that a separate random generator draws."""
    model = build_model(settings, FIRST_SYMBOL + config.symbols + 1, config.seed)
    training, testing = (torch.Generator().manual_seed(config.seed + part) for part in range(2))
    batches = (echo_batch(config.batch_size, distance, config.symbols, training) for _ in range(config.training_steps))
    losses = fit(model, batches, config.learning_rate)
    last = losses[-max(1, len(losses) // 10) :]
    is_elman = settings.kind == "elman"
    return EchoScore(
        kind=settings.kind,
        nonlinearity=settings.nonlinearity if is_elman else None,
        initialization=settings.recurrent_initialization if is_elman else None,
        distance=distance,
        accuracy=accuracy(model, *echo_batch(TEST_ROWS, distance, config.symbols, testing)),
        final_loss=sum(last) / len(last),
    )
