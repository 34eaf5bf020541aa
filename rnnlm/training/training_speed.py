"""Measure how fast this machine trains a model."""

import time
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from rnnlm.config import PipelineConfig
from rnnlm.models.devices import float32_products
from rnnlm.models.dropout import Dropout
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.dataset_reader import training_counts
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.distributed.process_group import SINGLE_PROCESS
from rnnlm.training.optimizer_step import BatchLoss, Updater, choose_loss, take_step
from rnnlm.training.optimizers import prepare_updates
from rnnlm.training.seeding import step_generator
from rnnlm.training.train import training_batches

WARM_UP_STEPS = 3


def training_speed(
    model: LanguageModel, config: PipelineConfig, dataset: DatasetRecord, device: torch.device, seconds: float
) -> float:
    """Trained tokens per second in this process, without validation and checkpoints.

    The model is changed.
    """
    training = config.training
    model.to(device).train()
    optimizer = prepare_updates(model, training)
    loss = choose_loss(training, training_counts(dataset), model.never_predicted.cpu().numpy())
    dropout = Dropout(**training.dropout.resolved().model_dump())
    updater = Updater(BatchLoss(model, loss, dropout), optimizer, training.optimizer.clip_norm)
    batches = repeated_batches(config, dataset)
    state: Tensor | None = None
    tokens, spent = 0, 0.0
    with float32_products(training.product_precision):
        for step, batch in enumerate(islice(batches, WARM_UP_STEPS)):
            state = take_step(updater, batch, state, step_generator(training.seed, step)).state
        step = WARM_UP_STEPS
        while spent < seconds:
            start = time.perf_counter()
            batch = next(batches)
            taken = take_step(updater, batch, state, step_generator(training.seed, step))
            taken.loss.item()  # wait for the device
            spent += time.perf_counter() - start
            state, step, tokens = taken.state, step + 1, tokens + batch.predicted_tokens
    return tokens / spent


def repeated_batches(config: PipelineConfig, dataset: DatasetRecord) -> Iterator[Batch]:
    while True:
        yield from training_batches(config, dataset, SINGLE_PROCESS).batches()
