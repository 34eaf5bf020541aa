"""Measure how far back gradients reach in untrained networks with each nonlinearity and initialization."""

import logging
from collections.abc import Iterator
from itertools import islice, product

import torch
from torch import Tensor

from rnnlm.config import ModelConfig, Nonlinearity, RecurrentInitialization
from rnnlm.evaluation.gradient_norms import gradient_norms
from rnnlm.extensions.probes.probe_config import INITIALIZATIONS, GradientProbeConfig
from rnnlm.extensions.probes.probe_records import GradientCurve
from rnnlm.extensions.probes.probe_training import fit
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.unigram import unigram_log_probabilities
from rnnlm.sequences.windows import stored_windows
from rnnlm.storage.records import DatasetRecord

logger = logging.getLogger(__name__)
NONLINEARITIES: tuple[Nonlinearity, ...] = ("tanh", "relu")


def measure_gradients(dataset: DatasetRecord, config: GradientProbeConfig, window_length: int) -> list[GradientCurve]:
    """Measure the gradient norms of untrained networks with each nonlinearity and initialization.

    If configured, measure the norms again after some training steps. `window_length` is the number of predicted tokens
    per window of a training batch in stream mode.
    """
    token_ids, target_ids = stored_windows(dataset, "valid", config.steps + 1, config.rows)
    curves = []
    for nonlinearity, start, model in variants(dataset, config):
        for steps in (0, config.trained_steps) if config.trained_steps else (0,):
            fit(model, probe_batches(dataset, config, window_length, steps), config.learning_rate)
            norms = gradient_norms(model, token_ids, target_ids).tolist()
            curves.append(GradientCurve(nonlinearity=nonlinearity, start=start, trained_steps=steps, norms=norms))
            logger.info("probe gradients: %s, %s, after %d steps: done", nonlinearity, start, steps)
    return curves


def variants(dataset: DatasetRecord, config: GradientProbeConfig) -> Iterator[tuple[Nonlinearity, str, LanguageModel]]:
    """Yield networks with each nonlinearity and initialization.

    One initialization is a scaled identity, whose gradients explode.
    """
    unigram = unigram_log_probabilities(dataset)
    starts: list[tuple[str, RecurrentInitialization, float]] = [(name, name, 1.0) for name in INITIALIZATIONS]
    starts.append((f"identity × {config.factor:g}", "identity", config.factor))
    for nonlinearity, (start, initialization, factor) in product(NONLINEARITIES, starts):
        settings = ModelConfig(
            hidden_size=config.hidden_size,
            layers=config.layers,
            nonlinearity=nonlinearity,
            recurrent_initialization=initialization,
            tie_embeddings=False,
        )
        model = build_model(settings, dataset.vocabulary_size, config.seed, unigram)
        with torch.no_grad():
            for cell in model.stack.cells:
                cell.get_parameter("U").mul_(factor)
        yield nonlinearity, start, model


def probe_batches(
    dataset: DatasetRecord, config: GradientProbeConfig, window_length: int, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the first `steps` batches of the training split in training order, over as many epochs as needed."""
    epochs = range(steps)  # `steps` epochs are enough, because each epoch has at least one batch.
    batches = TrainingBatches(
        StoredSplit(dataset, "train"), dataset.mode, config.batch_size, window_length, config.seed, epochs
    )
    return ((batch.input_ids, batch.target_ids) for batch in islice(batches, steps))
