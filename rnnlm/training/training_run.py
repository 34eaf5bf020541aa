"""One training run, from a dataset to a folder with the best weights and their history.

RUN/config.json, started.json   what is trained, on which dataset
RUN/history.jsonl, samples/     measurements and samples on the way
RUN/processes/                  what several processes are told, and what they leave; until the run is complete
RUN/checkpoints/                until the run is complete; see checkpointing/checkpoints.py
RUN/tracking.json               how far the tracker has sent all this
RUN/model/, run.json, COMPLETE  the result
"""

import logging
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path

import torch

from rnnlm.config import PipelineConfig
from rnnlm.home import Home, digest_of, read_json, remove_partials, write_json
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.stages import COMPLETE, STAGE_VERSIONS, find_damage, mark_complete, move_aside, stage
from rnnlm.training.checkpointing.checkpoints import CHECKPOINTS
from rnnlm.training.checkpointing.interruption import Interruption, noticing_signals
from rnnlm.training.devices import choose_device
from rnnlm.training.distributed.job import PROCESSES, Job, train_in_processes
from rnnlm.training.events import TRACKING, Tracker
from rnnlm.training.history import SAMPLES
from rnnlm.training.training_setup import train_here

logger = logging.getLogger(__name__)
UNMARKED = (CHECKPOINTS, PROCESSES, TRACKING, SAMPLES)  # scaffolding, what changes later, pages for people
STARTED = "started.json"
# Of TrainingConfig. Not `processes`: it changes how sums are rounded.
CHANGES_NO_RESULT = {
    *("reader_processes", "resident_tokens", "checkpoint_every_seconds", "checkpoints_kept"),
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
        damage = find_run_damage(folder)
        if damage is None and not force:
            remove_scaffolding(folder)  # a kill at the very end leaves it
            return RunRecord(**read_json(folder / "run.json"), folder=folder, skipped=True)
        make_way(folder, damage, force)
        folder.mkdir(exist_ok=True)
        write_json(folder / "config.json", config.model_dump(mode="json"))
        write_json(folder / STARTED, {"run_id": run_id, "dataset_id": dataset.dataset_id})
        with noticing_signals() as interruption, open_tracker(run_id) as tracker:
            return write_run(folder, run_id, config, dataset, device, tracker, interruption)


def find_run_damage(folder: Path) -> str | None:
    """What is wrong with a finished run, or that it is not finished; None if it is whole."""
    return find_damage(folder, UNMARKED)


def make_way(folder: Path, damage: str | None, force: bool) -> None:
    """Set a finished run aside until its replacement is complete; an unfinished one stays, unless forced."""
    if (folder / COMPLETE).exists():
        if damage is not None:
            logger.warning("%s: %s; it is trained again, and this one is kept until then", folder, damage)
        remove_partials(folder)
        move_aside(folder)
    elif force:
        shutil.rmtree(folder, ignore_errors=True)


def name_run(config: PipelineConfig, dataset: DatasetRecord) -> str:
    return digest_of(
        {
            "stage": STAGE_VERSIONS["training"],
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
    mark_complete(folder, apart_from=UNMARKED)
    remove_scaffolding(folder)
    remove_partials(folder)  # the run that this one replaces
    return RunRecord(**facts, folder=folder)


def remove_scaffolding(folder: Path) -> None:
    for name in (CHECKPOINTS, PROCESSES):
        shutil.rmtree(folder / name, ignore_errors=True)
