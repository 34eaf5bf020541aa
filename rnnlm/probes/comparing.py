"""Gradients of fresh models beside each other: tanh and relu, each way for the recurrent matrix to begin."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import get_args

import torch
from torch import Tensor

from rnnlm.config import ModelConfig, Nonlinearity, PipelineConfig, RecurrentInitialization
from rnnlm.evaluation.baselines import unigram_log_probabilities
from rnnlm.home import Home
from rnnlm.models.building import build_model
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.preparing import prepare_dataset
from rnnlm.probes.config import GradientProbeConfig
from rnnlm.probes.fitting import fit
from rnnlm.probes.gradients import gradient_norms
from rnnlm.probes.windows import stored_windows
from rnnlm.records import DatasetRecord, Record
from rnnlm.sequences.feeding import TrainingBatches
from rnnlm.sequences.reading import StoredSplit

Flow = tuple[tuple[float, ...], ...]  # layer → distance back → norm


class GradientCurve(Record):
    """norms: see gradient_norms. start: the recurrent matrix's initialisation, "identity × 1.2" for a scaled one."""

    nonlinearity: Nonlinearity
    start: str
    trained_steps: int
    norms: Flow

    @property
    def relative(self) -> tuple[float, ...]:
        """The top layer's norms relative to that at distance 0; zeros where that is zero."""
        norms = self.norms[-1]
        return tuple(norm / (norms[0] or 1.0) for norm in norms)


def compare_gradients(
    home: Home,
    pipeline: PipelineConfig,
    config: GradientProbeConfig,
    told: Callable[[GradientCurve], None] = lambda curve: None,
) -> list[GradientCurve]:
    """Each variant at its initialisation and, where asked for, after some steps; told of each when it is measured."""
    dataset = prepare_dataset(home, pipeline)
    token_ids, target_ids = stored_windows(dataset, "valid", config.steps + 1, config.rows)
    curves = []
    for nonlinearity, start, model in variants(dataset, config):
        for steps in (0, config.trained_steps) if config.trained_steps else (0,):
            fit(model, training_batches(dataset, pipeline, config, steps), config.learning_rate)
            norms = flow_of(gradient_norms(model, token_ids, target_ids))
            curve = GradientCurve(nonlinearity=nonlinearity, start=start, trained_steps=steps, norms=norms)
            told(curve)
            curves.append(curve)
    return curves


def variants(
    dataset: DatasetRecord, config: GradientProbeConfig
) -> Iterator[tuple[Nonlinearity, str, ElmanLanguageModel]]:
    """Every nonlinearity with every initialisation; and with the identity times a factor, to see them explode."""
    unigram = unigram_log_probabilities(dataset)
    starts: list[tuple[str, RecurrentInitialization, float]] = [
        (name, name, 1.0) for name in get_args(RecurrentInitialization)
    ]
    starts.append((f"identity × {config.factor:g}", "identity", config.factor))
    for nonlinearity in get_args(Nonlinearity):
        for start, initialization, factor in starts:
            settings = ModelConfig(
                hidden_size=config.hidden_size,
                layers=config.layers,
                nonlinearity=nonlinearity,
                recurrent_initialization=initialization,
            )
            model = build_model(settings, dataset.vocabulary_size, config.seed, unigram).language_model
            with torch.no_grad():
                for cell in model.stack.cells:
                    cell.U.mul_(factor)
            yield nonlinearity, start, model


def training_batches(
    dataset: DatasetRecord, pipeline: PipelineConfig, config: GradientProbeConfig, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The first batches of the training split in the order of training, over as many epochs as it takes."""
    epochs = range(steps)  # each has a batch at least
    window = pipeline.training.window_length
    batches = TrainingBatches(
        StoredSplit(dataset, "train"), dataset.mode, config.batch_size, window, config.seed, epochs
    )
    return ((batch.input_ids, batch.target_ids) for batch in islice(batches, steps))


def flow_of(norms: Tensor) -> Flow:
    """(L, t) as nested tuples of floats."""
    return tuple(tuple(layer) for layer in norms.tolist())
