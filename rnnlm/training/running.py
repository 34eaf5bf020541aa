"""One training run, from a dataset to a folder with the best weights and their history.

RUN/config.json, started.json   what is trained, on which dataset
RUN/history.jsonl, samples/     measurements and samples on the way
RUN/processes/                  what several processes are told, and what they leave; until the run is complete
RUN/checkpoints/                until the run is complete; see resuming/checkpoints.py
RUN/tracking.json               how far the tracker has sent all this
RUN/model/, run.json, COMPLETE  the result
"""

import logging
import math
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path

import torch

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.baselines import unigram_log_probabilities
from rnnlm.evaluation.scoring import nll_of_batches
from rnnlm.generation.continuing import choose_prompts, continue_prompt
from rnnlm.home import COMPLETE, Home, digest_of, is_complete, mark_complete, read_json, write_json
from rnnlm.models.building import build_model, save_model
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.hugging_face import ElmanForCausalLM
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.sequences.batching import Batch
from rnnlm.sequences.feeding import TrainingBatches, evaluation_batches, training_loader
from rnnlm.sequences.reading import StoredSplit, connect, training_counts
from rnnlm.sequences.statements import statement
from rnnlm.stages import stage
from rnnlm.tokenizers.face import load_tokenizer
from rnnlm.training.devices import choose_device
from rnnlm.training.events import TRACKING, Event, Measurement, Tracker, TrainingSamples
from rnnlm.training.history import HISTORY, History, write_samples
from rnnlm.training.loop import Outcome, Plan, Training
from rnnlm.training.losses.choosing import choose_loss
from rnnlm.training.optimization import make_optimizer
from rnnlm.training.processes.jobs import PROCESSES, Job, Result, train_in_processes
from rnnlm.training.processes.world import ALONE, World
from rnnlm.training.regularizers import make_regularizers
from rnnlm.training.resuming.checkpoints import CHECKPOINTS, Checkpoints
from rnnlm.training.resuming.interruption import Interruption, noticing_signals
from rnnlm.training.resuming.state import TrainingState
from rnnlm.training.schedules import make_schedule
from rnnlm.training.seeding import seed_everything

logger = logging.getLogger(__name__)
STAGE_VERSION = 2
STARTED = "started.json"
# Of TrainingConfig. Not `processes`: it changes how sums are rounded.
CHANGES_NO_RESULT = {
    *("reader_processes", "checkpoint_every_seconds", "checkpoints_kept"),
    *("nodes", "rendezvous", "restarts"),
}
OpenTracker = Callable[[str], AbstractContextManager[Tracker]]  # of a run's id


@stage("training")
def run_training(
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    open_tracker: OpenTracker,
    *,
    force: bool = False,
) -> RunRecord:
    """A finished run under home.runs, named by the digest of dataset, model and training settings.

    An unfinished one goes on from its last good checkpoint, with the result it would have had without the break.
    Two calls for the same run at once: the second waits and finds it finished.
    """
    device = choose_device(config.training.device)
    run_id = name_run(config, dataset)
    folder = home.runs / run_id
    home.make(home.runs)
    with home.lock(f"run-{run_id}"):
        if is_complete(folder) and not force:
            remove_scaffolding(folder)  # a kill at the very end leaves it
            return RunRecord(**read_json(folder / "run.json"), folder=folder, skipped=True)
        if folder.exists() and (force or (folder / COMPLETE).exists()):
            shutil.rmtree(folder)  # forced, or damaged after it was complete
        folder.mkdir(exist_ok=True)
        write_json(folder / "config.json", config.model_dump(mode="json"))
        write_json(folder / STARTED, {"run_id": run_id, "dataset_id": dataset.dataset_id})
        with noticing_signals() as interruption, open_tracker(run_id) as tracker:
            return write_run(folder, run_id, config, dataset, device, tracker, interruption)


def name_run(config: PipelineConfig, dataset: DatasetRecord) -> str:
    return digest_of(
        {
            "stage": STAGE_VERSION,
            "dataset": dataset.dataset_id,
            "model": config.model.model_dump(mode="json"),
            "training": config.training.model_dump(mode="json", exclude=CHANGES_NO_RESULT),
            "versions": {name: version(name) for name in ("torch", "transformers", "numpy")},
        }
    )[:16]


def write_run(
    folder: Path,
    run_id: str,
    config: PipelineConfig,
    dataset: DatasetRecord,
    device: torch.device,
    tracker: Tracker,
    interruption: Interruption,
) -> RunRecord:
    """Train, from the start or from a checkpoint, and write the folder up to its COMPLETE marker."""
    if config.training.processes > 1:
        result = train_in_processes(Job(folder=folder, config=config, dataset=dataset), tracker, interruption)
    else:
        result = train_here(folder, config, dataset, device, tracker, interruption)
    tracker.flush()  # if MLflow was away until now, its run gets an id here
    facts = {
        "run_id": run_id,
        "dataset_id": dataset.dataset_id,
        "mlflow_run_id": tracker.mlflow_run_id,
        **result.model_dump(),
    }
    write_json(folder / "run.json", facts)
    mark_complete(folder, apart_from=(CHECKPOINTS, PROCESSES, TRACKING))
    remove_scaffolding(folder)
    return RunRecord(**facts, folder=folder)


def remove_scaffolding(folder: Path) -> None:
    for name in (CHECKPOINTS, PROCESSES):
        shutil.rmtree(folder / name, ignore_errors=True)


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
    seed_everything(config.training.seed, config.training.deterministic)
    model = build_model(config.model, dataset.vocabulary_size, config.training.seed, unigram_log_probabilities(dataset))
    outcome = train_model(model, folder, config, dataset, device, heard, interruption, world)
    if world.leads:
        model.language_model.load_state_dict(outcome.best_weights)
        write_model(model, folder / "model", dataset)
    return Result(trained_tokens=outcome.trained_tokens, best_validation_perplexity=outcome.best_perplexity)


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
    held_out = StoredSplit(dataset, "valid")
    plan = make_plan(config, training_batches(config, dataset, world).batches_an_epoch, network)
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
        return training_loader(training_batches(config, dataset, world, first_batch), training.reader_processes)

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
            return math.exp(min(700.0, nats / tokens))

        loss = choose_loss(training, training_counts(dataset), network.never_predicted.cpu().numpy())
        return Training(state, feed, loss, plan, evaluate, report, checkpoints, interruption).run()


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


def make_plan(config: PipelineConfig, batches_an_epoch: int, network: ElmanLanguageModel) -> Plan:
    training = config.training
    total_steps = training.epochs * batches_an_epoch
    uniform_loss = math.log(max(2, int((~network.never_predicted).sum())))  # nats per token
    return Plan(
        total_steps=total_steps,
        maximum_tokens=training.maximum_tokens,
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


def sample_sentences(
    model: ElmanForCausalLM, config: PipelineConfig, dataset: DatasetRecord, step: int
) -> TrainingSamples:
    """What the model writes at this point of training. Draws from a generator of its own."""
    tokenizer = load_tokenizer(dataset.tokenizer_folder)
    prompts = choose_prompts(dataset, tokenizer, config.generation)
    samples = tuple(continue_prompt(model, tokenizer, prompt, config.generation) for prompt in prompts)
    return TrainingSamples(step, samples)


def write_model(model: ElmanForCausalLM, folder: Path, dataset: DatasetRecord) -> None:
    """Weights as safetensors, configuration, tokenizer, and the facts an evaluation elsewhere needs."""
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
