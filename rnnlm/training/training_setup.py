"""Train in this process: build model, data feed, optimizer and history, and run the loop."""

import logging
import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext

import torch

from rnnlm.config import PipelineConfig, TrainingConfig
from rnnlm.evaluation.baselines import unigram_log_probabilities
from rnnlm.evaluation.token_losses import nll_of_batches
from rnnlm.metrics import perplexity
from rnnlm.models.block import Linear
from rnnlm.models.cell import Cell
from rnnlm.models.devices import float32_products, has_native_bfloat16, keep_freed_memory
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch, RowSource
from rnnlm.sequences.data_feed import TrainingBatches, evaluation_batches, training_loader
from rnnlm.sequences.dataset_reader import StoredSplit, training_counts
from rnnlm.sequences.tuning_sample import tuning_sample
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.batch_loss import choose_loss
from rnnlm.training.checkpointing.checkpoints import CHECKPOINTS, Checkpoints
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.distributed.job import Job, TrainingResult
from rnnlm.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from rnnlm.training.events import Event, Measurement
from rnnlm.training.export import sample_sentences, write_model
from rnnlm.training.history import HISTORY, History, write_samples
from rnnlm.training.loop import Outcome, Training, TrainingPlan
from rnnlm.training.optimizers import LazyAdamW, make_optimizer
from rnnlm.training.regularizers import make_regularizers
from rnnlm.training.schedules import Schedule
from rnnlm.training.seeding import seed_everything
from rnnlm.training.temperature_scaling import divide_logits, fit_temperature
from rnnlm.training.warm_start import begin_with

logger = logging.getLogger(__name__)


def train_in_this_process(
    job: Job,
    device: torch.device,
    on_event: Callable[[], None],
    interruption: Interruption,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> TrainingResult:
    """Train, and write the best weights to the run's folder. on_event: called after each measurement and each sample.

    A collective: call it on every rank.
    """
    training, dataset = job.config.training, job.dataset
    keep_freed_memory()
    if process_group.is_main:
        warn_of_slow_settings(job, device)
    seed_everything(training.seed, training.deterministic)
    unigram = unigram_log_probabilities(dataset)
    model = build_model(job.config.model, dataset.vocabulary_size, training.seed, unigram)
    if job.start is not None:
        begin_with(model, dataset.tokenizer_folder, job.start)
    if not job.config.model.has_network:
        write_model(model, job.folder / "model", dataset)
        return TrainingResult(
            trained_tokens=dataset.predicted_tokens["train"], best_validation_perplexity=sampled_perplexity(model, job)
        )
    with float32_products(training.product_precision):
        outcome = run_loop(model, job, device, on_event, interruption, process_group)
    result = TrainingResult(
        trained_tokens=outcome.trained_tokens,
        best_validation_perplexity=outcome.best_perplexity,
        process_changes=outcome.process_changes,
    )
    if process_group.is_main:
        model.load_state_dict(outcome.best_weights)
        if training.temperature_scaling:
            result = scale_temperature(result, model, job.config, dataset)
        write_model(model, job.folder / "model", dataset)
    return result


def sampled_perplexity(model: LanguageModel, job: Job) -> float:
    """The model's perplexity of the validation sample."""
    source = validation_sample(job.config, job.dataset)
    nats, tokens = nll_of_batches(model, evaluation_batches(source, job.dataset.mode, job.config.evaluation.batch_size))
    return perplexity(nats / tokens)


def warn_of_slow_settings(job: Job, device: torch.device) -> None:
    """Warn of settings that train, but far more slowly than others would."""
    training = job.config.training
    if training.precision == "bfloat16" and device.type == "cpu" and not has_native_bfloat16():
        logger.warning(
            "training: this processor computes bfloat16 products many times slower than float32; "
            "--set training.precision=float32"
        )
    if training.loss.kind == "sampled" and job.config.model.head_bias == "zero" and job.start is None:
        logger.warning(
            "training: from a head bias of zero the sampled loss is slow to learn which words are rare; "
            "--set model.head_bias=unigram"
        )


def scale_temperature(
    result: TrainingResult, network: LanguageModel, config: PipelineConfig, dataset: DatasetRecord
) -> TrainingResult:
    """Scale the weights in place; returns the result with its new sampled validation perplexity."""
    source = validation_sample(config, dataset)

    def batches() -> Iterable[Batch]:
        return evaluation_batches(source, dataset.mode, config.evaluation.batch_size)

    temperature, nats = fit_temperature(network, batches)
    divide_logits(network, temperature)
    scaled = perplexity(nats / source.predicted_count)
    logger.info("training: temperature %.3f, sampled validation perplexity %.2f", temperature, scaled)
    return result.model_copy(update={"temperature": temperature, "best_validation_perplexity": scaled})


def run_loop(
    network: LanguageModel,
    job: Job,
    device: torch.device,
    on_event: Callable[[], None],
    interruption: Interruption,
    process_group: ProcessGroup,
) -> Outcome:
    """The loop over the training split, with history, samples and checkpoints in the run's folder."""
    folder, config, dataset = job.folder, job.config, job.dataset
    training = config.training
    network.to(device)
    plan = make_plan(config, dataset, process_group, network)
    optimizer = prepare_updates(network, training, device, process_group)
    schedule = Schedule(optimizer, training.schedule, plan.total_steps)
    regularizers = make_regularizers(network, training, plan.total_steps)
    state = TrainingState(
        network,
        optimizer,
        schedule,
        regularizers,
        process_group,
        processes_at_start=training.distributed.processes_at_start,
    )
    kept, every_seconds = training.checkpoints.kept, training.checkpoints.every_seconds
    checkpoints = Checkpoints(folder / CHECKPOINTS, kept, every_seconds, process_group)
    saved = checkpoints.load_newest()
    if saved is not None:
        state.load_state_dict(saved)
        logger.info("training: resumes from step %d of %d", state.step, plan.total_steps)
    log_process_change(state)

    def feed(first_batch: int) -> Iterable[Batch]:
        batches = training_batches(config, dataset, process_group, first_batch)
        if device.type == "cuda" and dataset.predicted_tokens["train"] <= training.feed.resident_tokens:
            batches.device = device
            return batches
        return training_loader(batches, training.feed.reader_processes)

    with History(folder / HISTORY) if process_group.is_main else nullcontext() as history:

        def record(event: Event) -> None:
            if history is None:
                return
            if isinstance(event, Measurement):
                history.write(event)
            else:
                write_samples(folder, event)
            on_event()

        source = validation_sample(config, dataset)

        def validate(step: int) -> float:
            if process_group.is_main:
                record(sample_sentences(network, config, dataset, step))
            rank, size = process_group.rank, process_group.size
            own = evaluation_batches(source, dataset.mode, config.evaluation.batch_size, rank, size)
            sums = torch.tensor(nll_of_batches(network, own), dtype=torch.float64)
            nats, tokens = process_group.sum(sums).tolist()
            return perplexity(nats / tokens)

        loss = choose_loss(training, training_counts(dataset), network.never_predicted.cpu().numpy())
        compiled = training.cuda_graphs and device.type == "cuda" and process_group.size == 1
        return Training(state, feed, loss, plan, validate, record, checkpoints, interruption, compiled).run()


def prepare_updates(
    network: LanguageModel, training: TrainingConfig, device: torch.device, process_group: ProcessGroup
) -> LazyAdamW:
    """Set how gradients are computed and which rows are updated, as the loss and the device ask; the optimizer."""
    by_rows = training.loss.kind == "sampled" and device.type == "cpu"  # a GPU updates all rows at once
    # With several ranks gradients are dense, and the optimizer finds the rows that are not zero: DDP supports sparse
    # gradients only of embeddings, and gloo takes longer to add 3,000 sparse rows of 128 (34 ms) than all 32,000 rows
    # of a vocabulary (18 ms).
    network.embedding.sparse = by_rows and process_group.size == 1
    for module in network.stack.modules():
        if isinstance(module, Cell | Linear):
            module.precision = getattr(torch, training.product_precision)
    optimizer = make_optimizer(network, training.optimizer)
    optimizer.by_rows = (network.embedding.weight, network.head.weight) if by_rows else ()
    return optimizer


def log_process_change(state: TrainingState) -> None:
    if state.process_changes and state.process_changes[-1].step == state.step:
        logger.warning(
            "training: from step %d on the number of processes is %d; the result is that of the run's first number of\n"
            "processes to within rounding, not bit by bit",
            state.step,
            state.process_changes[-1].processes,
        )


def validation_sample(config: PipelineConfig, dataset: DatasetRecord) -> RowSource:
    """The part of the validation split that training is validated on."""
    return tuning_sample(StoredSplit(dataset, "valid"), config.training.validation.tokens)


def training_batches(
    config: PipelineConfig, dataset: DatasetRecord, process_group: ProcessGroup, first_batch: int = 0
) -> TrainingBatches:
    training = config.training
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
    )


def count_steps(training: TrainingConfig, batches_per_epoch: int, tokens_per_batch: float) -> int:
    """Steps of all epochs, or as many batches of average size as hold training.maximum_tokens, if that is less."""
    steps = training.epoch_count * batches_per_epoch
    if training.maximum_tokens is None:
        return steps
    return min(steps, max(1, round(training.maximum_tokens / tokens_per_batch)))


def make_plan(
    config: PipelineConfig, dataset: DatasetRecord, process_group: ProcessGroup, network: LanguageModel
) -> TrainingPlan:
    batches_per_epoch = training_batches(config, dataset, process_group).batches_an_epoch
    tokens_per_batch = dataset.predicted_tokens["train"] / max(1, batches_per_epoch)
    total_steps = count_steps(config.training, batches_per_epoch, tokens_per_batch)
    uniform_loss = math.log(max(2, int((~network.never_predicted).sum())))  # nats per token
    return TrainingPlan(
        config=config.training,
        total_steps=total_steps,
        validation_steps=validation_steps(total_steps, config.training.validation.evaluations),
        log_every_seconds=config.tracking.log_every_seconds,
        mean_tokens=tokens_per_batch if config.training.loss.weighting == "tokens" else None,
        loss_limit=config.training.divergence.explosion_factor * uniform_loss,
    )


def validation_steps(total_steps: int, count: int) -> frozenset[int]:
    """Evenly spaced steps after which to validate, without the last step, which the loop adds."""
    return frozenset(total_steps * index // count for index in range(1, count)) - {0}
