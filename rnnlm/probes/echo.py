"""What the state remembers: a symbol is shown, others follow, and at a cue the first one has to be said again.

The task in its plainest form is as old as Hochreiter and Schmidhuber (1997): the only error there is lies `distance`
steps after what would have mended it, so that it is learnt as far as gradients reach back.
"""

import logging
from collections.abc import Iterator

import torch
from torch import Tensor

from rnnlm.config import ModelConfig, Nonlinearity, RecurrentInitialization
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.probes.probe_config import EchoConfig
from rnnlm.probes.probe_records import EchoScore
from rnnlm.probes.probe_training import fit

logger = logging.getLogger(__name__)
FIRST_SYMBOL = 4  # ids below are <pad>, <unk>, <bos>, <eos>
TESTED_ROWS = 1_000


def echo_rows(count: int, distance: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """input_ids and target_ids, both (count, distance + 1) int64: a target at the cue alone, `<pad>` elsewhere.

    A row is the symbol to remember, distance - 1 random others, and the cue, the id after the symbols'.
    """
    input_ids = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + symbols, (count, distance + 1), generator=generator)
    target_ids = torch.zeros_like(input_ids)
    target_ids[:, -1] = input_ids[:, 0]
    input_ids[:, -1] = FIRST_SYMBOL + symbols
    return input_ids, target_ids


def measure_echo(config: EchoConfig) -> list[EchoScore]:
    """A small model trained anew for each nonlinearity, initialisation and distance."""
    scores = []
    for nonlinearity in config.nonlinearities:
        for initialization in config.initializations:
            for distance in config.distances:
                score = echo_score(config, nonlinearity, initialization, distance)
                scores.append(score)
                logger.info(
                    "probe echo: %s, %s, %d back: %.0f%% right",
                    *(nonlinearity, initialization, distance, 100 * score.accuracy),
                )
    return scores


def echo_score(
    config: EchoConfig, nonlinearity: Nonlinearity, initialization: RecurrentInitialization, distance: int
) -> EchoScore:
    """Trained on fresh rows in every step, tested on rows from another generator."""
    model = echo_model(config, nonlinearity, initialization)
    draws = torch.Generator().manual_seed(config.seed)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(config.training_steps):
            yield echo_rows(config.batch_size, distance, config.symbols, draws)

    losses = fit(model, batches(), config.learning_rate)
    last = losses[-max(1, len(losses) // 10) :]
    tested = echo_rows(TESTED_ROWS, distance, config.symbols, torch.Generator().manual_seed(config.seed + 1))
    return EchoScore(
        nonlinearity=nonlinearity,
        initialization=initialization,
        distance=distance,
        accuracy=echo_accuracy(model, *tested),
        final_loss=sum(last) / len(last),
    )


def echo_model(
    config: EchoConfig, nonlinearity: Nonlinearity, initialization: RecurrentInitialization
) -> ElmanLanguageModel:
    settings = ModelConfig(
        hidden_size=config.hidden_size,
        input="one-hot",
        nonlinearity=nonlinearity,
        recurrent_initialization=initialization,
        tie_embeddings=False,
        head_bias="zero",
    )
    return build_model(settings, FIRST_SYMBOL + config.symbols + 1, config.seed).language_model


@torch.inference_mode()
def echo_accuracy(model: ElmanLanguageModel, input_ids: Tensor, target_ids: Tensor) -> float:
    """The share of rows whose best guess at the cue is right."""
    hidden, _ = model.hidden(input_ids)
    guesses = model.logits(hidden[:, -1]).argmax(dim=-1)
    return float((guesses == target_ids[:, -1]).double().mean())
