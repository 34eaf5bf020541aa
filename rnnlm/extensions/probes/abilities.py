"""Measure a network's abilities: train it on short rows of a synthetic task, and test it on longer ones."""

from collections.abc import Iterator

import torch
from torch import Tensor

from rnnlm.config import ModelConfig
from rnnlm.extensions.probes.probe_config import AbilitiesConfig, SyntheticTaskName
from rnnlm.extensions.probes.probe_records import AbilityScore
from rnnlm.extensions.probes.probe_training import accuracy, fit
from rnnlm.extensions.probes.synthetic_tasks import TASKS, SyntheticTask
from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.models.parameter_count import count_parameters, nearest_size
from rnnlm.tokenizers.text_tokenizer import PAD

DIAGONAL = "elman-diagonal"
TEST_ROWS, CHECK_ROWS = 512, 128
CHECK_STEPS = 200  # The number of optimizer steps between two checks of whether the task is solved.
SOLVED_NATS = 1e-3  # The mean loss in nats per target below which a task counts as solved.
# The step of hidden_size when parameters are matched. Every kind of model supports multiples of 8; for example, a
# Transformer needs 4 heads with pairs of units.
SIZE_STEP = 8


def network_names(config: AbilitiesConfig) -> list[str]:
    """Return the configured kinds of model, and `elman-diagonal` if it is requested."""
    return [*config.kinds, *([DIAGONAL] if config.diagonal else [])]


def measure_ability(config: AbilitiesConfig, network: str, task_name: SyntheticTaskName, seed: int) -> AbilityScore:
    """Train a network until it solves the task or the steps are used up, and return its test accuracies.

    The rows of every step are new and have a random length.
    """
    task = TASKS[task_name]
    settings = matched_model(config, network, task)
    model = build_model(settings, task.vocabulary_size, seed)
    training, checking, testing = (torch.Generator().manual_seed(3 * seed + part) for part in range(3))
    check = task.rows(CHECK_ROWS, config.trained_length, checking)
    losses = fit(model, training_batches(config, task, model, check, training), config.learning_rate)
    tests = [task.rows(TEST_ROWS, length, testing) for length in config.lengths]
    tests = [(input_ids, second_half(target_ids)) for input_ids, target_ids in tests]
    return AbilityScore(
        network=network,
        task=task_name,
        seed=seed,
        hidden_size=settings.hidden_size,
        parameters=count_parameters(settings, task.vocabulary_size).total,
        steps=len(losses),
        lengths=config.lengths,
        accuracies=tuple(accuracy(model, *test) for test in tests),
        chances=tuple(chance(target_ids) for _, target_ids in tests),
    )


def training_batches(
    config: AbilitiesConfig,
    task: SyntheticTask,
    model: LanguageModel,
    check: tuple[Tensor, Tensor],
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield training batches, with one random length for all rows of a batch.

    The iteration ends when the model solves the rows of `check`.
    """
    for step in range(config.training_steps):
        if step and step % CHECK_STEPS == 0 and mean_loss(model, *check) < SOLVED_NATS:
            return
        length = int(torch.randint(task.shortest, config.trained_length + 1, (), generator=generator))
        yield task.rows(config.batch_size, length, generator)


def matched_model(config: AbilitiesConfig, network: str, task: SyntheticTask) -> ModelConfig:
    """Return the model settings whose number of parameters is nearest to config.parameters.

    The recurrent matrices of all kinds are initialized as orthogonal matrices, because gated networks support no other
    initialization.
    """
    diagonal = {"kind": "elman", "recurrence": "diagonal", "recurrent_initialization": "spread"}
    special = diagonal if network == DIAGONAL else {"kind": network, "recurrent_initialization": "orthogonal"}
    common = {"layers": config.layers, "tie_embeddings": False, "head_bias": "zero"}
    settings = ModelConfig.model_validate({**common, **special, "hidden_size": SIZE_STEP})
    return nearest_size(settings, task.vocabulary_size, config.parameters, SIZE_STEP)


def second_half(target_ids: Tensor) -> Tensor:
    """Return the targets with `<pad>` in the first half of each row, where long rows are as easy as short ones."""
    later = target_ids.clone()
    later[:, : target_ids.shape[1] // 2] = PAD
    return later


@torch.inference_mode()
def mean_loss(model: LanguageModel, input_ids: Tensor, target_ids: Tensor) -> float:
    """Return the mean loss in nats per target."""
    hidden, _ = model.hidden(input_ids)
    return float(exact_cross_entropy(model, hidden, target_ids))


def chance(target_ids: Tensor) -> float:
    """Return the fraction of the most frequent target, which is the accuracy of a model that always predicts it."""
    counts = target_ids[target_ids != PAD].bincount()
    return float(counts.max() / counts.sum())
