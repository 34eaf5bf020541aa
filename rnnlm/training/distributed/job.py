"""A training run as a job for several processes: its description, and its result."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock

from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.home import atomic_file, read_json
from rnnlm.storage.records import DatasetRecord, ProcessChange, Record
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.distributed.launcher import Launch, RayLaunch, run_processes
from rnnlm.training.events import Tracker

PROCESSES = "processes"  # in a run's folder
JOB_FILE, RESULT_FILE, LOCK_FILE = "job.json", "result.json", "lock"  # in PROCESSES


class Job(Record):
    """Everything that a worker needs to know. Paths must be the same on all nodes."""

    folder: Path  # of the run
    config: PipelineConfig
    dataset: DatasetRecord
    start: Path | None = None  # folder of the model to begin with; see training/warm_start.py

    def launch(self, first: bool = True) -> Launch:
        """The processes of one node, or those on a Ray cluster."""
        distributed = self.config.training.distributed
        folder = self.folder / PROCESSES
        path = str(folder / JOB_FILE)
        if distributed.launcher == "ray":
            program = ("-m", "rnnlm.training.distributed.ray_launcher", path)
            return RayLaunch(program, folder, distributed.processes, distributed.restarts)
        return Launch(
            program=("-m", "rnnlm.training.distributed.worker", path),
            folder=folder,
            processes=distributed.processes // distributed.nodes,
            restarts=distributed.restarts,
            nodes=distributed.nodes,
            rendezvous=distributed.rendezvous,
            first=first,
            name=self.folder.name,
        )


class TrainingResult(Record):
    trained_tokens: int
    best_validation_perplexity: float  # after temperature scaling
    temperature: float = 1.0  # by which the logits were divided
    process_changes: tuple[ProcessChange, ...] = ()


def former_processes_ended(folder: Path) -> AbstractContextManager[Any]:
    """Wait until processes whose launcher was killed have written their last checkpoint. folder: of the run."""
    lock = folder / PROCESSES / LOCK_FILE
    return FileLock(lock) if lock.exists() else nullcontext()


def train_in_processes(job: Job, tracker: Tracker, interruption: Interruption) -> TrainingResult:
    """Train in other processes while the tracker sends what they write. Raises the errors of run_processes.

    A signal stops the processes after a checkpoint.
    """
    folder = job.folder / PROCESSES
    folder.mkdir(exist_ok=True)
    (folder / RESULT_FILE).unlink(missing_ok=True)
    with atomic_file(folder / JOB_FILE) as partial:
        partial.write_text(job.model_dump_json(indent=1), encoding="utf-8")

    def poll() -> None:
        tracker()
        interruption.raise_if_received()

    with interruption.deferred():
        run_processes(job.launch(), poll)
    result = read_json(folder / RESULT_FILE)
    if result is None:
        raise ConfigError(
            f"{folder / RESULT_FILE}: missing, although all processes succeeded;\n"
            "all nodes that train must see the same RNNLM_HOME"
        )
    return TrainingResult(**result)
