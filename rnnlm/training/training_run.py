"""A training run: from a dataset to a folder with the best weights and their history.

RUN/config.json, started.json   configuration and dataset
RUN/history.jsonl, samples/     measurements, and samples during training
RUN/processes/                  job and result of distributed training; deleted when the run is complete
RUN/checkpoints/                deleted when the run is complete; see checkpointing/checkpoints.py
RUN/tracking.json               how much of it the tracker has sent
RUN/model/, run.json, COMPLETE  the result
"""

import logging
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path

import torch

from rnnlm.config import PipelineConfig, result_settings
from rnnlm.home import Home, read_json, remove_partials, write_json
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.stages import COMPLETE, find_damage, mark_complete, mark_used, move_aside, stage, stage_key
from rnnlm.training.checkpointing.checkpoints import CHECKPOINTS
from rnnlm.training.checkpointing.interruption import Interruption, defer_signals
from rnnlm.training.devices import choose_device
from rnnlm.training.distributed.job import PROCESSES, Job, train_in_processes
from rnnlm.training.events import TRACKING, Tracker
from rnnlm.training.history import SAMPLES
from rnnlm.training.training_setup import train_in_this_process

logger = logging.getLogger(__name__)
UNMARKED = (CHECKPOINTS, PROCESSES, TRACKING, SAMPLES)  # temporary, or may change after the run is complete
STARTED = "started.json"
OpenTracker = Callable[[str], AbstractContextManager[Tracker]]  # takes the run id


@stage("training")
def run_training(
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    open_tracker: OpenTracker,
    *,
    force: bool = False,
) -> RunRecord:
    """A complete run in home.runs, named by the digest of dataset, model and training settings.

    An unfinished run resumes from its last good checkpoint, with the same result as without the interruption.
    Of two concurrent calls for the same run the second one waits and then finds it complete.
    """
    device = choose_device(config.training.device)
    run_id = name_run(config, dataset)
    folder = home.runs / run_id
    home.make(home.runs)
    with home.lock(f"run-{run_id}"):
        mark_used(folder)
        damage = find_run_damage(folder)
        if damage is None and not force:
            remove_temporary(folder)  # left by a kill at the very end
            return RunRecord(**read_json(folder / "run.json"), folder=folder, skipped=True)
        clear_folder(folder, damage, force)
        folder.mkdir(exist_ok=True)
        write_json(folder / "config.json", config.model_dump(mode="json"))
        write_json(folder / STARTED, {"run_id": run_id, "dataset_id": dataset.dataset_id})
        with defer_signals() as interruption, open_tracker(run_id) as tracker:
            return write_run(Job(folder=folder, config=config, dataset=dataset), device, tracker, interruption)


def find_run_damage(folder: Path) -> str | None:
    """What is wrong with a run, or that it is unfinished; None if it is complete and undamaged."""
    return find_damage(folder, UNMARKED)


def clear_folder(folder: Path, damage: str | None, force: bool) -> None:
    """Set a complete run aside until its replacement is complete. Delete an unfinished one only if forced."""
    if (folder / COMPLETE).exists():
        if damage is not None:
            logger.warning("%s: %s; training again, and keeping this one until then", folder, damage)
        remove_partials(folder)
        move_aside(folder)
    elif force:
        shutil.rmtree(folder, ignore_errors=True)


def name_run(config: PipelineConfig, dataset: DatasetRecord) -> str:
    """The run id: a digest of everything that its result depends on."""
    return stage_key(
        "training",
        dataset=dataset.dataset_id,
        model=result_settings(config.model),
        training=result_settings(config.training),
        versions={name: version(name) for name in ("torch", "transformers", "numpy")},
    )[:16]


def write_run(job: Job, device: torch.device, tracker: Tracker, interruption: Interruption) -> RunRecord:
    """Train, from the start or from a checkpoint, and write the result up to its COMPLETE marker."""
    folder = job.folder
    if job.config.training.distributed.processes > 1:
        result = train_in_processes(job, tracker, interruption)
    else:
        result = train_in_this_process(job, device, tracker, interruption)
    tracker.flush()  # if MLflow was unavailable until now, its run gets an id here
    facts = {
        "run_id": folder.name,
        "dataset_id": job.dataset.dataset_id,
        "mlflow_run_id": tracker.mlflow_run_id,
        **result.model_dump(),
    }
    write_json(folder / "run.json", facts)
    mark_complete(folder, apart_from=UNMARKED)
    remove_temporary(folder)
    remove_partials(folder)  # the replaced run
    return RunRecord(**facts, folder=folder)


def remove_temporary(folder: Path) -> None:
    for name in (CHECKPOINTS, PROCESSES):
        shutil.rmtree(folder / name, ignore_errors=True)
