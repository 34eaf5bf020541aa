"""One training run, from a dataset to a folder with the best weights and their history."""

import json
import math
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path

import torch

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.baselines import unigram_log_probabilities
from rnnlm.evaluation.scoring import nll_per_token
from rnnlm.generation.continuing import choose_prompts, continue_prompt
from rnnlm.home import Home, digest_of, is_complete, mark_complete, read_json, write_json
from rnnlm.models.building import build_model, save_model
from rnnlm.models.hugging_face import ElmanForCausalLM
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.sequences.feeding import TrainingBatches, training_loader
from rnnlm.sequences.reading import StoredSplit, connect, training_counts
from rnnlm.sequences.statements import statement
from rnnlm.stages import stage
from rnnlm.tokenizers.face import load_tokenizer
from rnnlm.training.devices import choose_device
from rnnlm.training.events import Event, Measurement, Tracker, TrainingSamples
from rnnlm.training.loop import Plan, train
from rnnlm.training.losses.choosing import choose_loss
from rnnlm.training.optimization import make_optimizer
from rnnlm.training.regularizers import make_regularizers
from rnnlm.training.schedules import make_schedule
from rnnlm.training.seeding import seed_everything

STAGE_VERSION = 2
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

    Two calls for the same run at once: the second waits and finds it finished.
    """
    device = choose_device(config.training.device)
    run_id = name_run(config, dataset)
    folder = home.runs / run_id
    home.make(home.runs)
    with home.lock(f"run-{run_id}"):
        if is_complete(folder) and not force:
            return RunRecord(**read_json(folder / "run.json"), folder=folder, skipped=True)
        if folder.exists():
            shutil.rmtree(folder)  # unfinished, or forced
        folder.mkdir()
        with open_tracker(run_id) as tracker:
            return write_run(folder, run_id, config, dataset, device, tracker)


def name_run(config: PipelineConfig, dataset: DatasetRecord) -> str:
    return digest_of(
        {
            "stage": STAGE_VERSION,
            "dataset": dataset.dataset_id,
            "model": config.model.model_dump(mode="json"),
            "training": config.training.model_dump(mode="json", exclude={"reader_processes"}),
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
) -> RunRecord:
    """Train, and write the folder up to its COMPLETE marker."""
    training = config.training
    seed_everything(training.seed, training.deterministic)
    write_json(folder / "config.json", config.model_dump(mode="json"))
    held_out = StoredSplit(dataset, "valid")
    batches = TrainingBatches(
        StoredSplit(dataset, "train"),
        dataset.mode,
        training.batch_size,
        training.window_length,
        training.seed,
        range(training.epochs),
    )
    model = build_model(config.model, dataset.vocabulary_size, training.seed, unigram_log_probabilities(dataset))
    network = model.language_model
    network.embedding.sparse = training.loss == "sampled" and device.type == "cpu"  # a GPU updates all rows at once
    total_steps = training.epochs * batches.batches_an_epoch
    optimizer = make_optimizer(network.to(device), training)
    plan = Plan(
        total_steps=total_steps,
        maximum_tokens=training.maximum_tokens,
        clip_norm=training.clip_norm,
        evaluation_steps=evaluation_steps(total_steps, training.evaluations),
        log_every_seconds=config.tracking.log_every_seconds,
        seed=training.seed,
    )
    with (folder / "history.jsonl").open("a", encoding="utf-8") as history:

        def report(event: Event) -> None:
            if isinstance(event, Measurement):
                history.write(json.dumps({"step": event.step, "metrics": event.metrics}) + "\n")
                history.flush()
            tracker(event)

        def evaluate(step: int) -> float:
            report(sample_sentences(model, config, dataset, step))
            return math.exp(min(700.0, nll_per_token(network, held_out, dataset.mode, config.evaluation.batch_size)))

        outcome = train(
            network,
            training_loader(batches, training.reader_processes),
            choose_loss(training, training_counts(dataset), network.never_predicted.cpu().numpy()),
            optimizer,
            make_schedule(optimizer, training, total_steps),
            device,
            plan,
            evaluate,
            report,
            make_regularizers(network, training, total_steps),
        )
    network.load_state_dict(outcome.best_weights)
    write_model(model, folder / "model", dataset)
    facts = {
        "run_id": run_id,
        "dataset_id": dataset.dataset_id,
        "mlflow_run_id": tracker.mlflow_run_id,
        "trained_tokens": outcome.trained_tokens,
        "best_validation_perplexity": outcome.best_perplexity,
    }
    write_json(folder / "run.json", facts)
    mark_complete(folder)
    return RunRecord(**facts, folder=folder)


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
