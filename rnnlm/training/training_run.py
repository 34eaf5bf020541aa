"""A training run: from a dataset to a folder with the best weights, their history, and the counts mixed with them.

RUN/config.json, started.json   configuration and dataset
RUN/history.jsonl, samples/     measurements, and samples during training
RUN/processes/                  job and result of distributed training; deleted when the run is complete
RUN/drawn_targets.npy           deleted when the run is complete; see further_targets.py
RUN/checkpoints/                deleted when the run is complete; see checkpointing/checkpoints.py
RUN/tracking.json               how much of it the tracker has sent
RUN/model/, run.json, COMPLETE  the result: the best weights, and the counts that are mixed with them
RUN/ancestor_documents.parquet  what the model that it started from has seen; see warm_start.py
"""

import logging
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
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
from rnnlm.storage.home import Home, read_json, remove_partials, write_json
from rnnlm.storage.records import DatasetRecord, RunRecord, StartedFrom
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
from rnnlm.training.history import SAMPLES, STARTED, TRACKING, Tracker
from rnnlm.training.job import PROCESSES, Job, TrainingResult, former_processes_ended
from rnnlm.training.train import train
from rnnlm.training.training_listener import RunListener
from rnnlm.training.warm_start import ANCESTOR_DOCUMENTS, start_folder

if TYPE_CHECKING:  # two of its sections are read here
    from rnnlm.config import PipelineConfig

logger = logging.getLogger(__name__)
UNMARKED = (
    CHECKPOINTS,
    PROCESSES,
    TRACKING,
    SAMPLES,
    DRAWN_TARGETS,
    "nll-valid",
)  # temporary, or may change after the run is complete
OpenTracker = Callable[[str], AbstractContextManager[Tracker]]  # takes the run id
TrainElsewhere = Callable[[Job, Tracker, Interruption], TrainingResult]
Launcher = Callable[[TrainingConfig], TrainElsewhere | None]  # None: train in this process


@stage("training")
def run_training(
    home: Home,
    config: "PipelineConfig",
    dataset: DatasetRecord,
    open_tracker: OpenTracker,
    *,
    start: StartedFrom | None = None,
    force: bool = False,
    samples: bool = False,
) -> RunRecord:
    """Train a run, or find it complete.

    Its folder in home.runs is named by the digest of all that its result depends on.

    These are the dataset, the settings of model and training, and the initial weights.

    start: the model to begin with, whose copy is in home.starts; None: random weights. samples: write some at each
    validation. The run is trained in this process, or in those that an extension starts.
    An unfinished run resumes from its last good checkpoint, with the same result as without the interruption. Only
    after a rollback (training.divergence.retries) the result depends on when checkpoints were written.
    Of two concurrent calls for the same run the second one waits and then finds it complete.
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
        write_json(folder / STARTED, started)
        targets = drawn_targets(home, config.training, dataset, folder)
        job = job.model_copy(update={"drawn_targets": targets})
        with defer_signals() as interruption, open_tracker(run_id) as tracker:
            if train_elsewhere is not None:
                result = train_elsewhere(job, tracker, interruption)
            else:
                listener = RunListener(folder, tracker)
                if samples:
                    listener = listener.with_samples(dataset, config.generation)
                with former_processes_ended(folder):
                    result = train(job, choose_device(config.training.device), listener, interruption)
            tracker.flush()  # if MLflow was unavailable until now, its run gets an id here
            facts = {**started, "mlflow_run_id": tracker.mlflow_run_id, **result.model_dump()}
            trained = RunRecord.model_validate({**facts, "folder": folder})
            facts["counting_seconds"] = add_counts(home, config, dataset, trained)
            run = complete_run(folder, facts)
        copy_to_storage(folder)
        return run


def find_finished(home: Home, folder: Path, config: "PipelineConfig", *, force: bool = False) -> RunRecord | None:
    """Return the complete run in `folder`, fetched from the storage if need be; or None, and an empty folder to fill.

    Call it under the run's lock. force: as if there were none.
    """
    if not force:
        fetch_folder(folder)
    mark_used(folder)
    damage = find_run_damage(home, folder)
    if damage is None and not force:
        remove_temporary(folder)  # left by a kill at the very end
        copy_to_storage(folder)
        return RunRecord(**read_json(folder / "run.json"), folder=folder, skipped=True)
    clear_folder(folder, damage, force)
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", as_stored(config).model_dump(mode="json"))
    return None


def complete_run(folder: Path, facts: dict[str, Any]) -> RunRecord:
    """Write run.json and the marker. facts: the fields of the record but its folder."""
    write_json(folder / "run.json", facts)
    mark_complete(folder, apart_from=UNMARKED)
    remove_temporary(folder)
    remove_partials(folder)  # the replaced run
    return RunRecord.model_validate({**facts, "folder": folder})


def warm_job(home: Home, job: Job, start: StartedFrom) -> Job:
    """Return the job with the initial weights, learning rate and budget of a warm start."""
    earlier = start_folder(home, start)
    if (earlier / ANCESTOR_DOCUMENTS).exists():
        shutil.copy(earlier / ANCESTOR_DOCUMENTS, job.folder)
    return job.model_copy(update={"training": job.training.of_warm_start(), "start": earlier})


def find_run_damage(home: Home, folder: Path) -> str | None:
    """Describe the damage of a run, or say that it is unfinished; None if it is complete and undamaged."""
    return find_new_damage(home, folder, UNMARKED)


def clear_folder(folder: Path, damage: str | None, force: bool) -> None:
    """Set a complete run aside until its replacement is complete. Delete an unfinished one only if forced."""
    if (folder / COMPLETE).exists():
        if damage is not None:
            logger.warning("%s: %s; training again, and keeping this one until then", folder, damage)
        remove_partials(folder)
        move_aside(folder)
    elif force:
        shutil.rmtree(folder, ignore_errors=True)


def name_run(config: "PipelineConfig", dataset: DatasetRecord, start: StartedFrom | None = None) -> str:
    """Return the run id: a digest of everything that the run's result depends on."""
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
    """Return the settings that a run's result depends on. Initial weights count, not the name they were found by."""
    settings = result_settings(training.of_warm_start() if warm else training)
    return {name: value for name, value in settings.items() if name not in ("start_from", "warm_start")}


def elsewhere(training: TrainingConfig) -> TrainElsewhere | None:
    """Return how other processes train if an extension starts some, else None. Raise DeviceError if this one cannot."""
    launchers: list[Launcher] = plugged("launchers")
    train = next((found for launcher in launchers if (found := launcher(training)) is not None), None)
    if train is None:
        choose_device(training.device)
    return train


def add_counts(home: Home, config: "PipelineConfig", dataset: DatasetRecord, run: RunRecord) -> float | None:
    """Store what is mixed with the network's probabilities; the seconds of counting. None: the network is alone."""
    if not config.model.counts:
        return None
    network_nll_nats = None
    if config.model.has_network:
        network_nll_nats = stored_network_nll(home, dataset, run, "valid", config.evaluation.batch_size)
    mixture, seconds = fit_mixture(dataset, config.model.counts, network_nll_nats)
    save_mixture(mixture, run.model_folder)
    shares = ", ".join(f"{share:.2f}" for share in mixture.shares)
    told = "" if mixture.is_alone else f"; their shares by known context: {shares}"
    logger.info("training: counted %d-grams in %.1f s%s", config.model.counts, seconds, told)
    return seconds


def remove_temporary(folder: Path) -> None:
    for name in (CHECKPOINTS, PROCESSES):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / DRAWN_TARGETS).unlink(missing_ok=True)
