"""Training of a network, from the set-up to the written model.

train()               creates model, data and loss, runs the TrainingLoop, writes the best weights
training_loop.py      iterates over the batches, with validations, checkpoints and measurements in between
optimizer_step.py     updates the weights by one batch
"""

import logging
import math
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from rnnlm.config.training_config import TrainingConfig
from rnnlm.evaluation.batch_losses import nll_of_batches
from rnnlm.metrics import perplexity
from rnnlm.models.devices import float32_products, keep_freed_memory, usable_precision
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model, save_model
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.data_feed import TrainingBatches, training_loader
from rnnlm.sequences.dataset_reader import StoredSplit, connect
from rnnlm.sequences.tuning_sample import TuningSample
from rnnlm.sequences.unigram import unigram_counts, unigram_log_probabilities
from rnnlm.storage.home import write_json
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import statement
from rnnlm.training.checkpointing.checkpoints import CHECKPOINTS, Checkpoints
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.job import Job, TrainingResult
from rnnlm.training.optimizer_step import choose_loss, with_usable_precision
from rnnlm.training.pace import MOST_EPOCHS, pace_of
from rnnlm.training.process_group import SINGLE_PROCESS, ProcessGroup
from rnnlm.training.seeding import seed_everything
from rnnlm.training.temperature_scaling import scale_temperature
from rnnlm.training.training_listener import TrainingListener
from rnnlm.training.training_loop import TrainingLoop
from rnnlm.training.warm_start import begin_with

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Validation:
    """A callable that returns the perplexity on a sample of the validation split.

    Calling it is a collective of all ranks.
    """

    model: LanguageModel
    sample: TuningSample
    batch_size: int
    listener: TrainingListener
    process_group: ProcessGroup = SINGLE_PROCESS

    def __call__(self, step: int) -> float:
        """Tell the listener that a validation begins after `step` steps, and return the perplexity."""
        self.listener.validating(self.model, step)
        rank, size = self.process_group.rank, self.process_group.size
        batches = self.sample.batches(self.batch_size, rank, size)
        sums = torch.tensor(nll_of_batches(self.model, batches), dtype=torch.float64)
        nats, tokens = self.process_group.sum(sums).tolist()
        return perplexity(nats / tokens)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of all ranks together."""
        return self.sample.batches(self.batch_size)


def train(
    job: Job,
    device: torch.device,
    listener: TrainingListener,
    interruption: Interruption,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> TrainingResult:
    """Train a network, and write the best weights to the run's folder. This is a collective of all ranks.

    The listener receives the events of rank 0.
    """
    folder, dataset, training = job.folder, job.dataset, with_usable_precision(job.training, device)
    is_main = process_group.is_main
    keep_freed_memory()
    if is_main:
        warn_about_settings(job, device)
    seed_everything(training.seed, training.deterministic)
    model = build_model(job.model, dataset.vocabulary_size, training.seed, unigram_log_probabilities(dataset))
    if job.start is not None:
        begin_with(model, dataset.tokenizer_folder, job.start)
    listener = listener if is_main else TrainingListener()
    sample = TuningSample(dataset, training.validation.tokens)
    validate = Validation(model, sample, job.validation_batch_size, listener, process_group)
    if not job.model.has_network:
        write_model(model, folder / "model", dataset)
        nats, tokens = nll_of_batches(model, validate.batches())
        return TrainingResult(
            trained_tokens=dataset.predicted_tokens["train"], best_validation_perplexity=perplexity(nats / tokens)
        )
    model.to(device)
    batches_per_epoch = training_batches(training, dataset, process_group).batches_an_epoch
    tokens_per_batch = dataset.predicted_tokens["train"] / max(1, batches_per_epoch)
    # The loss of the uniform distribution in nats per token.
    uniform_nats = math.log(max(2, int((~model.never_predicted).sum())))
    checkpoints, total_steps = training.checkpoints, count_steps(training, batches_per_epoch, tokens_per_batch)
    pace = pace_of(job, total_steps, batches_per_epoch)
    # The feed has the largest possible number of epochs, because a Pace may lengthen training.
    fed = training if pace is None else training.model_copy(update={"epochs": MOST_EPOCHS})
    with float32_products(training.product_precision), listener:
        loop = TrainingLoop(
            model,
            training,
            choose_loss(training, unigram_counts(dataset)),
            partial(training_feed, fed, dataset, process_group, device, job.drawn_targets),
            validate,
            listener.measured,
            total_steps=total_steps,
            checkpoints=Checkpoints(folder / CHECKPOINTS, checkpoints.kept, checkpoints.every_seconds, process_group),
            interruption=interruption,
            process_group=process_group,
            mean_tokens=tokens_per_batch if training.loss.weighting == "tokens" else None,
            widths_vary=dataset.mode == "sentence",
            pace=pace,
            loss_limit=training.divergence.explosion_factor * uniform_nats,
            log_every_seconds=job.log_every_seconds,
        )
        loop.resume()
        best_weights, best_perplexity = loop.run()
    temperature = 1.0
    if is_main:
        model.load_state_dict(best_weights)
        if training.temperature_scaling:
            temperature, nats = scale_temperature(model, validate.batches)
            best_perplexity = perplexity(nats / sample.predicted_count)
            message = "training: temperature %.3f, sampled validation perplexity %.2f"
            logger.info(message, temperature, best_perplexity)
        write_model(model, folder / "model", dataset)
    return TrainingResult(
        trained_tokens=loop.tokens,
        best_validation_perplexity=best_perplexity,
        temperature=temperature,
        process_changes=tuple(loop.process_changes.changes),
    )


def warn_about_settings(job: Job, device: torch.device) -> None:
    """Log the GPU and a replaced precision. Log a warning about a setting with which training is slow."""
    training = job.training
    if device.type == "cuda":
        logger.info(
            "training: runs on %s with matrix products in %s",
            torch.cuda.get_device_name(device),
            training.product_precision,
        )
    if usable_precision(training.product_precision, device) != training.product_precision:
        logger.info(
            "training: matrix products are in float32, because this processor does not multiply bfloat16 in hardware"
        )
    if training.loss.is_sampled and job.model.head_bias == "zero" and job.start is None:
        logger.warning(
            "training: with a head bias of zero the sampled loss is slow to learn which tokens are rare;\n"
            "set model.head_bias=unigram"
        )


def holder(training: TrainingConfig, dataset: DatasetRecord, device: torch.device) -> torch.device | None:
    """Return the device if it is a GPU that can hold the whole training split, or None to read batches from disk."""
    fits = dataset.predicted_tokens["train"] <= training.feed.resident_tokens
    return device if device.type == "cuda" and fits else None


def training_feed(
    training: TrainingConfig,
    dataset: DatasetRecord,
    process_group: ProcessGroup,
    device: torch.device,
    drawn_targets: Path | None,
    first_batch: int,
) -> Iterable[Batch]:
    """Return training_batches(), either from the GPU's memory or prepared by the configured number of processes."""
    held_by = holder(training, dataset, device)
    batches = training_batches(training, dataset, process_group, first_batch, held_by, drawn_targets)
    return batches if held_by else training_loader(batches, training.feed.reader_processes)


def training_batches(
    training: TrainingConfig,
    dataset: DatasetRecord,
    process_group: ProcessGroup,
    first_batch: int = 0,
    device: torch.device | None = None,
    drawn_targets: Path | None = None,
) -> TrainingBatches:
    """Return this rank's part of all batches, starting with batch number `first_batch`.

    `device` is a device that holds the whole split in memory. If it is None, the batches are read from disk.
    """
    return TrainingBatches(
        StoredSplit(dataset, "train"),
        dataset.mode,
        training.batch_size,
        training.window_length,
        training.seed,
        range(training.epoch_count),
        process_group.rank,
        process_group.size,
        first_batch,
        device,
        drawn_targets,
    )


def count_steps(training: TrainingConfig, batches_per_epoch: int, tokens_per_batch: float) -> int:
    """Return the number of steps in all epochs, or for training.maximum_tokens if this number is smaller.

    maximum_tokens is converted to steps by the average number of tokens in a batch.
    """
    steps = training.epoch_count * batches_per_epoch
    if training.maximum_tokens is None:
        return steps
    return min(steps, max(1, round(training.maximum_tokens / tokens_per_batch)))


def write_model(model: LanguageModel, folder: Path, dataset: DatasetRecord) -> None:
    """Write weights, configuration, tokenizer and rnnlm.json, which specifies how other text is split into rows."""
    save_model(model, folder)
    for path in dataset.tokenizer_folder.iterdir():
        shutil.copy(path, folder / path.name)
    with connect(dataset) as connection:
        mode, context_length, block_length = connection.execute(statement("queries/read_cut")).fetchall()[0]
    facts = {
        "dataset_id": dataset.dataset_id,
        "corpus_name": dataset.corpus_name,
        "corpus_digest": dataset.corpus_digest,
        "mode": mode,
        "context_length": context_length,
        "block_length": block_length,
    }
    write_json(folder / "rnnlm.json", facts)
