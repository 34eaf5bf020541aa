"""Training in this process, put together from its configuration: model, data, optimiser, loss, what it reports to."""

import logging
import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path

import torch

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.baselines import unigram_log_probabilities
from rnnlm.evaluation.token_losses import nll_of_batches
from rnnlm.metrics import perplexity
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.hugging_face import ElmanForCausalLM
from rnnlm.models.model_factory import build_model
from rnnlm.records import DatasetRecord
from rnnlm.sequences.batches import Batch, Source
from rnnlm.sequences.data_feed import TrainingBatches, evaluation_batches, training_loader
from rnnlm.sequences.dataset_reader import StoredSplit, training_counts
from rnnlm.sequences.tuning_sample import tuning_sample
from rnnlm.training.checkpointing.checkpoints import CHECKPOINTS, Checkpoints
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.checkpointing.training_state import TrainingState
from rnnlm.training.cuda_graphs import Recorder
from rnnlm.training.devices import float32_products, keep_freed_memory, precision_of_products
from rnnlm.training.distributed.job import Result
from rnnlm.training.distributed.process_group import ALONE, World
from rnnlm.training.events import Event, Measurement
from rnnlm.training.export import sample_sentences, write_model
from rnnlm.training.history import HISTORY, History, write_samples
from rnnlm.training.loop import Outcome, Plan, Training
from rnnlm.training.loss_selection import choose_loss
from rnnlm.training.optimizer_step import update
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.regularizers import make_regularizers
from rnnlm.training.schedules import make_schedule
from rnnlm.training.seeding import seed_everything
from rnnlm.training.temperature_scaling import divide_logits, fit_temperature

logger = logging.getLogger(__name__)


def train_here(
    folder: Path,
    config: PipelineConfig,
    dataset: DatasetRecord,
    device: torch.device,
    heard: Callable[[], None],
    interruption: Interruption,
    world: World = ALONE,
) -> Result:
    """Train in this process, which may be one of several, and leave the best weights in the folder."""
    keep_freed_memory()
    seed_everything(config.training.seed, config.training.deterministic)
    model = build_model(config.model, dataset.vocabulary_size, config.training.seed, unigram_log_probabilities(dataset))
    with float32_products(config.training.precision):
        outcome = train_model(model, folder, config, dataset, device, heard, interruption, world)
    result = Result(trained_tokens=outcome.trained_tokens, best_validation_perplexity=outcome.best_perplexity)
    if world.leads:
        model.language_model.load_state_dict(outcome.best_weights)
        if config.training.temperature_scaling:
            result = with_temperature(result, model.language_model, config, dataset)
        write_model(model, folder / "model", dataset)
    return result


def with_temperature(
    result: Result, network: ElmanLanguageModel, config: PipelineConfig, dataset: DatasetRecord
) -> Result:
    """The best weights are scaled, and what that makes of their validation perplexity."""
    held_out = held_out_text(config, dataset)

    def batches() -> Iterable[Batch]:
        return evaluation_batches(held_out, dataset.mode, config.evaluation.batch_size)

    temperature, nats = fit_temperature(network, batches)
    divide_logits(network, temperature)
    scaled = perplexity(nats / held_out.predicted_count)
    logger.info("training: temperature %.3f, validation perplexity %.2f", temperature, scaled)
    return result.model_copy(update={"temperature": temperature, "best_validation_perplexity": scaled})


def train_model(
    model: ElmanForCausalLM,
    folder: Path,
    config: PipelineConfig,
    dataset: DatasetRecord,
    device: torch.device,
    heard: Callable[[], None],  # called after each line of history and each sample
    interruption: Interruption,
    world: World,
) -> Outcome:
    """The loop over the training split, with history, samples and checkpoints in the run's folder."""
    training = config.training
    network = model.language_model.to(device)
    by_rows = training.loss == "sampled" and device.type == "cpu"  # a GPU updates all rows at once
    # DDP takes no sparse gradient but an embedding's, and gloo adds up 3,000 sparse rows of 128 in 34 ms, all 32,000
    # rows of a vocabulary in 18 ms. So between processes gradients are whole; the optimizer finds the rows again.
    network.embedding.sparse = by_rows and world.size == 1
    network.stack.precision = precision_of_products(training)
    held_out = held_out_text(config, dataset)
    plan = make_plan(config, planned_steps(config, dataset, world), network)
    optimizer = make_optimizer(network, training)
    optimizer.by_rows = (network.embedding.weight, network.head.weight) if by_rows else ()
    schedule = make_schedule(optimizer, training, plan.total_steps)
    regularizers = make_regularizers(network, training, plan.total_steps)
    state = TrainingState(network, optimizer, schedule, regularizers, world)
    checkpoints = Checkpoints(folder / CHECKPOINTS, training.checkpoints_kept, training.checkpoint_every_seconds, world)
    saved = checkpoints.newest_good()
    if saved is not None:
        state.load_state_dict(saved)
        logger.info("training: goes on from step %d of %d", state.step, plan.total_steps)

    def feed(first_batch: int) -> Iterable[Batch]:
        batches = training_batches(config, dataset, world, first_batch)
        if device.type == "cuda" and dataset.predicted_tokens["train"] <= training.resident_tokens:
            batches.device = device
            return batches
        return training_loader(batches, training.reader_processes)

    with History(folder / HISTORY) if world.leads else nullcontext() as history:

        def report(event: Event) -> None:
            if history is None:
                return
            if isinstance(event, Measurement):
                history.write(event)
            else:
                write_samples(folder, event)
            heard()

        def evaluate(step: int) -> float:
            if world.leads:
                report(sample_sentences(model, config, dataset, step))
            mine = evaluation_batches(held_out, dataset.mode, config.evaluation.batch_size, world.rank, world.size)
            nats, tokens = world.sum(torch.tensor(nll_of_batches(network, mine), dtype=torch.float64)).tolist()
            return perplexity(nats / tokens)

        loss = choose_loss(training, training_counts(dataset), network.never_predicted.cpu().numpy())
        updated = Recorder() if training.cuda_graphs and device.type == "cuda" and world.size == 1 else update
        return Training(state, feed, loss, plan, evaluate, report, checkpoints, interruption, updated).run()


def held_out_text(config: PipelineConfig, dataset: DatasetRecord) -> Source:
    """What training is validated on."""
    return tuning_sample(StoredSplit(dataset, "valid"), config.training.evaluation_tokens)


def training_batches(
    config: PipelineConfig, dataset: DatasetRecord, world: World, first_batch: int = 0
) -> TrainingBatches:
    training = config.training
    return TrainingBatches(
        StoredSplit(dataset, "train"),
        dataset.mode,
        training.batch_size,
        training.window_length,
        training.seed,
        range(training.epochs),
        world.rank,
        world.size,
        first_batch,
    )


def planned_steps(config: PipelineConfig, dataset: DatasetRecord, world: World) -> int:
    """Steps of all epochs, or of as many batches of average size as hold training.maximum_tokens, if those are fewer.

    Warm-up, decay, averaging and evaluations stretch over them.
    """
    training = config.training
    batches_an_epoch = training_batches(config, dataset, world).batches_an_epoch
    steps = training.epochs * batches_an_epoch
    if training.maximum_tokens is None:
        return steps
    tokens_a_batch = dataset.predicted_tokens["train"] / max(1, batches_an_epoch)
    return min(steps, max(1, round(training.maximum_tokens / tokens_a_batch)))


def make_plan(config: PipelineConfig, total_steps: int, network: ElmanLanguageModel) -> Plan:
    training = config.training
    uniform_loss = math.log(max(2, int((~network.never_predicted).sum())))  # nats per token
    return Plan(
        total_steps=total_steps,
        clip_norm=training.clip_norm,
        evaluation_steps=evaluation_steps(total_steps, training.evaluations),
        log_every_seconds=config.tracking.log_every_seconds,
        seed=training.seed,
        loss_limit=training.explosion_factor * uniform_loss,
        divergence_retries=training.divergence_retries,
        accumulation=training.accumulation,
    )


def evaluation_steps(total_steps: int, count: int) -> frozenset[int]:
    """Steps after which the validation split is scored, evenly spaced; the end belongs to the loop."""
    return frozenset(total_steps * index // count for index in range(1, count)) - {0}
