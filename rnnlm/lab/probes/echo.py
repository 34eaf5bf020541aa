"""The echo task: remember a symbol for `distance` steps, and predict it at a cue.

In its simplest form it goes back to Hochreiter and Schmidhuber (1997). The only loss is `distance` steps after the
symbol, so it is learned only as far as gradients reach back.
"""

import logging
from collections.abc import Iterator

import torch
from torch import Tensor

from rnnlm.config import ModelConfig, Nonlinearity, RecurrentInitialization
from rnnlm.lab.probes.probe_config import EchoConfig
from rnnlm.lab.probes.probe_records import EchoScore
from rnnlm.lab.probes.probe_training import fit
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model

logger = logging.getLogger(__name__)
FIRST_SYMBOL = 4  # ids below are <pad>, <unk>, <bos>, <eos>
TEST_ROWS = 1_000


def echo_batch(count: int, distance: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """input_ids and target_ids, both (count, distance + 1) int64; targets are `<pad>` except at the cue.

    A row is the symbol to remember, distance - 1 random symbols, and the cue, whose id follows those of the symbols.
    """
    input_ids = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + symbols, (count, distance + 1), generator=generator)
    target_ids = torch.zeros_like(input_ids)
    target_ids[:, -1] = input_ids[:, 0]
    input_ids[:, -1] = FIRST_SYMBOL + symbols
    return input_ids, target_ids


def measure_echo(config: EchoConfig) -> list[EchoScore]:
    """Train a small model for each nonlinearity, initialization and distance."""
    scores = []
    for nonlinearity in config.nonlinearities:
        for initialization in config.initializations:
            for distance in config.distances:
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
    """Train on new rows in every step; test on rows from another generator."""
    model = echo_model(config, nonlinearity, initialization)
    generator = torch.Generator().manual_seed(config.seed)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(config.training_steps):
            yield echo_batch(config.batch_size, distance, config.symbols, generator)

    losses = fit(model, batches(), config.learning_rate)
    last = losses[-max(1, len(losses) // 10) :]
    test_rows = echo_batch(TEST_ROWS, distance, config.symbols, torch.Generator().manual_seed(config.seed + 1))
    return EchoScore(
        nonlinearity=nonlinearity,
        initialization=initialization,
        distance=distance,
        accuracy=echo_accuracy(model, *test_rows),
        final_loss=sum(last) / len(last),
    )


def echo_model(
    config: EchoConfig, nonlinearity: Nonlinearity, initialization: RecurrentInitialization
) -> LanguageModel:
    settings = ModelConfig(
        hidden_size=config.hidden_size,
        input="one-hot",
        nonlinearity=nonlinearity,
        recurrent_initialization=initialization,
        tie_embeddings=False,
        head_bias="zero",
    )
    return build_model(settings, FIRST_SYMBOL + config.symbols + 1, config.seed)


@torch.inference_mode()
def echo_accuracy(model: LanguageModel, input_ids: Tensor, target_ids: Tensor) -> float:
    """Share of rows whose most likely token at the cue is correct."""
    hidden, _ = model.hidden(input_ids)
    guesses = model.logits(hidden[:, -1]).argmax(dim=-1)
    return float((guesses == target_ids[:, -1]).double().mean())
