"""A training run: from a dataset to a folder with the best weights, their history and the n-gram model mixed with them.

storage/stage_folders.py lists the files of the folder.
"""

import logging
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.config.section import result_settings
from rnnlm.config.training_config import TrainingConfig
from rnnlm.corpora.source_names import as_stored
from rnnlm.evaluation.count_shares import fit_mixture
from rnnlm.evaluation.token_losses import stored_network_nll
from rnnlm.extension_points import plugged
from rnnlm.models.devices import choose_device
from rnnlm.models.mixture import save_mixture
from rnnlm.models.own_layers import note, own_kinds
from rnnlm.storage.home import Home, remove_partials, write_json
from rnnlm.storage.records import DatasetRecord, RunRecord, StartedFrom
from rnnlm.storage.stage_folders import ANCESTOR_DOCUMENTS, SAMPLES, TRACKING, RunFolder
from rnnlm.storage.stages import (
    COMPLETE,
    copy_to_storage,
    fetch_folder,
    find_new_damage,
    mark_complete,
    mark_used,
    move_aside,
    stage,
    stage_key,
)
from rnnlm.training.checkpointing.checkpoints import CHECKPOINTS
from rnnlm.training.checkpointing.interruption import Interruption, defer_signals
from rnnlm.training.further_targets import DRAWN_TARGETS, drawn_targets
from rnnlm.training.history import Tracker
from rnnlm.training.job import PROCESSES, Job, TrainingResult, former_processes_ended
from rnnlm.training.train import train
from rnnlm.training.training_listener import RunListener
from rnnlm.training.warm_start import start_folder

if TYPE_CHECKING:
    from rnnlm.config import GenerationConfig, PipelineConfig
    from rnnlm.models.language_model import LanguageModel

logger = logging.getLogger(__name__)
# Files that the COMPLETE marker does not list, because they are temporary or may change after it is written.
UNMARKED = (
    CHECKPOINTS,
    PROCESSES,
    TRACKING,
    SAMPLES,
    DRAWN_TARGETS,
    "nll-valid",
)
# A function that takes a run's id and returns the context of the run's tracker.
OpenTracker = Callable[[str], AbstractContextManager[Tracker]]
TrainElsewhere = Callable[[Job, Tracker, Interruption], TrainingResult]
# A function that writes samples into a run's folder at a validation; see training/samples.py.
WriteSamples = Callable[[DatasetRecord, "GenerationConfig", Path, "LanguageModel", int], None]
# A function that returns another function for training in other processes, or None if this process should train.
Launcher = Callable[[TrainingConfig], TrainElsewhere | None]


@stage("training")
def run_training(
    home: Home,
    config: "PipelineConfig",
    dataset: DatasetRecord,
    open_tracker: OpenTracker,
    *,
    start: StartedFrom | None = None,
    force: bool = False,
    write_samples: WriteSamples | None = None,
) -> RunRecord:
    """Train a run and return its record. If the run is already complete, only return the record.

    The run's folder in home.runs is named by a digest of everything that its result depends on: the dataset, the
    settings of model and training, and the initial weights. The run is trained in this process, or in processes that an
    extension starts.

    An unfinished run resumes from its last good checkpoint, with the same result as an uninterrupted run. The only
    exception is a rollback (training.divergence.retries), after which the result depends on when checkpoints were
    written. If two processes call this function for the same run, the second one waits and then finds the run complete.

    Args:
        home: The rnnlm home, which contains all data.
        config: The configuration of the pipeline.
        dataset: The dataset to train on.
        open_tracker: A function of the run's id that returns the tracker's context.
        start: The model to start from, which has been copied to home.starts. If it is None, the initial weights are
            random.
        force: Whether to train again even if the run is complete.
        write_samples: A function that writes samples at each validation, or None to write none.
    """
    train_elsewhere = elsewhere(config.training)
    run_id = name_run(config, dataset, start)
    folder = home.runs / run_id
    home.make(home.runs)
    note(home, own_kinds(config.model.model_dump()))
    with home.lock(f"run-{run_id}"):
        if (finished := find_finished(home, folder, config, force=force)) is not None:
            return finished
        started: dict[str, Any] = {"run_id": run_id, "dataset_id": dataset.dataset_id}
        job = Job(
            folder=folder,
            model=config.model,
            training=config.training,
            dataset=dataset,
            validation_batch_size=config.evaluation.batch_size,
            log_every_seconds=config.tracking.log_every_seconds,
        )
        if start is not None:
            started["started_from"] = start.model_dump()
            job = warm_job(home, job, start)
        RunFolder(folder).write_started(started)
        targets = drawn_targets(home, config.training, dataset, folder)
        job = job.model_copy(update={"drawn_targets": targets})
        with defer_signals() as interruption, open_tracker(run_id) as tracker:
            if train_elsewhere is not None:
                result = train_elsewhere(job, tracker, interruption)
            else:
                sampler = write_samples and partial(write_samples, dataset, config.generation, folder)
                listener = RunListener(folder, tracker, sampler)
                with former_processes_ended(folder):
                    result = train(job, choose_device(config.training.device), listener, interruption)
            # If MLflow was unavailable until now, this call creates the MLflow run and stores its id in the run's
            # folder.
            tracker.flush()
            facts = {**started, "mlflow_run_id": tracker.mlflow_run_id, **result.model_dump()}
            trained = RunRecord.model_validate({**facts, "folder": folder})
            facts["counting_seconds"] = add_counts(home, config, dataset, trained)
            run = complete_run(folder, facts)
        copy_to_storage(folder)
        return run


def find_finished(home: Home, folder: Path, config: "PipelineConfig", *, force: bool = False) -> RunRecord | None:
    """Return the complete run in `folder`, or prepare the folder for training and return None.

    A complete run may be fetched from the shared storage. The caller must hold the run's lock. If `force` is true, a
    complete run is ignored.
    """
    if not force:
        fetch_folder(folder)
    mark_used(folder)
    damage = find_run_damage(home, folder)
    if damage is None and not force:
        # A process that was killed just after completing the run may have left temporary files.
        remove_temporary(folder)
        copy_to_storage(folder)
        return RunFolder(folder).record(skipped=True)
    clear_folder(folder, damage, force)
    folder.mkdir(exist_ok=True)
    write_json(RunFolder(folder).configuration_path, as_stored(config).model_dump(mode="json"))
    return None


def complete_run(folder: Path, facts: dict[str, Any]) -> RunRecord:
    """Write run.json and the marker of completeness. `facts` contains all fields of the record except `folder`."""
    write_json(RunFolder(folder).facts_path, facts)
    mark_complete(folder, apart_from=UNMARKED)
    remove_temporary(folder)
    remove_partials(folder)  # The replaced run was kept until now under another name.
    return RunRecord.model_validate({**facts, "folder": folder})


def warm_job(home: Home, job: Job, start: StartedFrom) -> Job:
    """Return the job with the initial weights, learning rate and length of a warm start."""
    earlier = start_folder(home, start)
    if (earlier / ANCESTOR_DOCUMENTS).exists():
        shutil.copy(earlier / ANCESTOR_DOCUMENTS, job.folder)
    return job.model_copy(update={"training": job.training.of_warm_start(), "start": earlier})


def find_run_damage(home: Home, folder: Path) -> str | None:
    """Return a description of a run's damage or incompleteness, or None if the run is complete and undamaged."""
    return find_new_damage(home, folder, UNMARKED)


def clear_folder(folder: Path, damage: str | None, force: bool) -> None:
    """Rename a complete run until its replacement is complete. Delete an unfinished run if `force` is true."""
    if (folder / COMPLETE).exists():
        if damage is not None:
            logger.warning("%s: %s, so the run is trained again; this folder is kept until then", folder, damage)
        remove_partials(folder)
        move_aside(folder)
    elif force:
        shutil.rmtree(folder, ignore_errors=True)


def name_run(config: "PipelineConfig", dataset: DatasetRecord, start: StartedFrom | None = None) -> str:
    """Return the run's id, which is a digest of everything that its result depends on."""
    facts = {} if start is None else {"start": start.model_sha256}
    return stage_key(
        "training",
        dataset=dataset.dataset_id,
        model=result_settings(config.model),
        training=used_settings(config.training, start is not None),
        versions={name: version(name) for name in ("torch", "transformers", "numpy")},
        **facts,
    )[:16]


def used_settings(training: TrainingConfig, warm: bool) -> dict[str, Any]:
    """Return the settings that a run's result depends on.

    If `warm` is true, the name of the model from which training starts is left out: its weights matter, not its name.
    """
    settings = result_settings(training.of_warm_start() if warm else training)
    return {name: value for name, value in settings.items() if name not in ("start_from", "warm_start")}


def elsewhere(training: TrainingConfig) -> TrainElsewhere | None:
    """Return the function of an extension that trains in other processes, or None.

    Without such an extension, raise DeviceError if this process lacks the configured device.
    """
    launchers: list[Launcher] = plugged("launchers")
    train = next((found for launcher in launchers if (found := launcher(training)) is not None), None)
    if train is None:
        choose_device(training.device)
    return train


def add_counts(home: Home, config: "PipelineConfig", dataset: DatasetRecord, run: RunRecord) -> float | None:
    """Store the n-gram model that is mixed with the network. Return the seconds that its computation took.

    Return None if no n-gram model is configured.
    """
    if not config.model.counts:
        return None
    network_nll_nats = None
    if config.model.has_network:
        network_nll_nats = stored_network_nll(home, dataset, run, "valid", config.evaluation.batch_size)
    mixture, seconds = fit_mixture(dataset, config.model.counts, network_nll_nats)
    save_mixture(mixture, run.model_folder)
    shares = ", ".join(f"{share:.2f}" for share in mixture.shares)
    told = "" if mixture.is_alone else f"; their weights in the mixture, by the length of the known context: {shares}"
    logger.info("training: counted %d-grams in %.1f s%s", config.model.counts, seconds, told)
    return seconds


def remove_temporary(folder: Path) -> None:
    for name in (CHECKPOINTS, PROCESSES):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / DRAWN_TARGETS).unlink(missing_ok=True)
