"""Measure how long networks with different nonlinearities and initializations remember a symbol (`rnnlm probe echo`).

The loss is computed only at the cue, `distance` steps after the symbol. Hence a network learns the task only if
gradients reach back that far.
"""

import logging
from itertools import product

import torch

from rnnlm.config import ModelConfig, Nonlinearity, RecurrentInitialization
from rnnlm.extensions.probes.probe_config import EchoConfig
from rnnlm.extensions.probes.probe_records import EchoScore
from rnnlm.extensions.probes.probe_training import accuracy, fit
from rnnlm.extensions.probes.synthetic_tasks import FIRST_SYMBOL, echo_batch
from rnnlm.models.model_factory import build_model

logger = logging.getLogger(__name__)
TEST_ROWS = 1_000


def measure_echo(config: EchoConfig) -> list[EchoScore]:
    """Train and test a small model for each combination of nonlinearity, initialization and distance."""
    scores = []
    for nonlinearity, initialization, distance in product(
        config.nonlinearities, config.initializations, config.distances
    ):
        score = echo_score(config, nonlinearity, initialization, distance)
        scores.append(score)
        logger.info(
            "probe echo: %s, %s, distance %d: %.0f%% correct",
            *(nonlinearity, initialization, distance, 100 * score.accuracy),
        )
    return scores


def echo_score(
    config: EchoConfig, nonlinearity: Nonlinearity, initialization: RecurrentInitialization, distance: int
) -> EchoScore:
    """Train a model on new rows in every step, and test it on rows of a separate random generator."""
    settings = ModelConfig(
        hidden_size=config.hidden_size,
        input="one-hot",
        nonlinearity=nonlinearity,
        recurrent_initialization=initialization,
        tie_embeddings=False,
        head_bias="zero",
    )
    model = build_model(settings, FIRST_SYMBOL + config.symbols + 1, config.seed)
    training, testing = (torch.Generator().manual_seed(config.seed + part) for part in range(2))
    batches = (echo_batch(config.batch_size, distance, config.symbols, training) for _ in range(config.training_steps))
    losses = fit(model, batches, config.learning_rate)
    last = losses[-max(1, len(losses) // 10) :]
    return EchoScore(
        nonlinearity=nonlinearity,
        initialization=initialization,
        distance=distance,
        accuracy=accuracy(model, *echo_batch(TEST_ROWS, distance, config.symbols, testing)),
        final_loss=sum(last) / len(last),
    )
