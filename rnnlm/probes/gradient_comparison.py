"""Gradients of fresh models beside each other: tanh and relu, each way for the recurrent matrix to begin."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import get_args

import torch
from torch import Tensor

from rnnlm.config import ModelConfig, Nonlinearity, RecurrentInitialization
from rnnlm.evaluation.baselines import unigram_log_probabilities
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.probes.gradients import gradient_norms
from rnnlm.probes.probe_config import INITIALIZATIONS, GradientProbeConfig
from rnnlm.probes.probe_records import Flow, GradientCurve
from rnnlm.probes.probe_training import fit
from rnnlm.probes.windows import stored_windows
from rnnlm.records import DatasetRecord
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.dataset_reader import StoredSplit

logger = logging.getLogger(__name__)


def compare_gradients(dataset: DatasetRecord, config: GradientProbeConfig, window_length: int) -> list[GradientCurve]:
    """Each variant at its initialisation and, where asked for, after some steps.

    window_length: of the steps' batches, stream mode; predicted tokens.
    """
    token_ids, target_ids = stored_windows(dataset, "valid", config.steps + 1, config.rows)
    curves = []
    for nonlinearity, start, model in variants(dataset, config):
        for steps in (0, config.trained_steps) if config.trained_steps else (0,):
            fit(model, training_batches(dataset, config, window_length, steps), config.learning_rate)
            norms = flow_of(gradient_norms(model, token_ids, target_ids))
            curve = GradientCurve(nonlinearity=nonlinearity, start=start, trained_steps=steps, norms=norms)
            curves.append(curve)
            logger.info("probe gradients: %s, %s, after %d steps: done", nonlinearity, start, steps)
    return curves


def variants(
    dataset: DatasetRecord, config: GradientProbeConfig
) -> Iterator[tuple[Nonlinearity, str, ElmanLanguageModel]]:
    """Every nonlinearity with every initialisation; and with the identity times a factor, to see them explode."""
    unigram = unigram_log_probabilities(dataset)
    starts: list[tuple[str, RecurrentInitialization, float]] = [(name, name, 1.0) for name in INITIALIZATIONS]
    starts.append((f"identity × {config.factor:g}", "identity", config.factor))
    for nonlinearity in get_args(Nonlinearity):
        for start, initialization, factor in starts:
            settings = ModelConfig(
                hidden_size=config.hidden_size,
                layers=config.layers,
                nonlinearity=nonlinearity,
                recurrent_initialization=initialization,
                tie_embeddings=False,
            )
            model = build_model(settings, dataset.vocabulary_size, config.seed, unigram).language_model
            with torch.no_grad():
                for cell in model.stack.cells:
                    cell.U.mul_(factor)
            yield nonlinearity, start, model


def training_batches(
    dataset: DatasetRecord, config: GradientProbeConfig, window_length: int, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The first batches of the training split in the order of training, over as many epochs as it takes."""
    epochs = range(steps)  # each has a batch at least
    batches = TrainingBatches(
        StoredSplit(dataset, "train"), dataset.mode, config.batch_size, window_length, config.seed, epochs
    )
    return ((batch.input_ids, batch.target_ids) for batch in islice(batches, steps))


def flow_of(norms: Tensor) -> Flow:
    """(L, t) as nested tuples of floats."""
    return tuple(tuple(layer) for layer in norms.tolist())
