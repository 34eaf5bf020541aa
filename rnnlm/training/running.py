"""One training run, from a dataset to a folder with the best weights and their history.

RUN/config.json, started.json   what is trained, on which dataset
RUN/history.jsonl, samples/     measurements and samples on the way
RUN/processes/                  what several processes are told, and what they leave; until the run is complete
RUN/checkpoints/                until the run is complete; see resuming/checkpoints.py
RUN/tracking.json               how far the tracker has sent all this
RUN/model/, run.json, COMPLETE  the result
"""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path

import torch

from rnnlm.config import PipelineConfig
from rnnlm.home import COMPLETE, Home, digest_of, is_complete, mark_complete, read_json, write_json
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.stages import stage
from rnnlm.training.assembly import train_here
from rnnlm.training.devices import choose_device
from rnnlm.training.events import TRACKING, Tracker
from rnnlm.training.processes.jobs import PROCESSES, Job, train_in_processes
from rnnlm.training.resuming.checkpoints import CHECKPOINTS
from rnnlm.training.resuming.interruption import Interruption, noticing_signals

STAGE_VERSION = 2
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
