"""A training run as a job for several processes: what they are told, and what comes back."""

from pathlib import Path

from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.home import atomic_file, read_json
from rnnlm.records import DatasetRecord, Record
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.distributed.launcher import Launch, run_processes
from rnnlm.training.events import Tracker

PROCESSES = "processes"  # in a run's folder
JOB, RESULT = "job.json", "result.json"  # in there


class Job(Record):
    """All that a process needs to know. Paths must be the same on all nodes."""

    folder: Path  # of the run
    config: PipelineConfig
    dataset: DatasetRecord

    def launch(self, first: bool = True) -> Launch:
        """The processes of one node."""
        training = self.config.training
        return Launch(
            program=("-m", "rnnlm.training.distributed.worker", str(self.folder / PROCESSES / JOB)),
            folder=self.folder / PROCESSES,
            processes=training.distributed.processes // training.distributed.nodes,
            restarts=training.distributed.restarts,
            nodes=training.distributed.nodes,
            rendezvous=training.distributed.rendezvous,
            first=first,
            name=self.folder.name,
        )


class Result(Record):
    trained_tokens: int
    best_validation_perplexity: float  # with its temperature
    temperature: float = 1.0  # that the logits were divided by


def train_in_processes(job: Job, tracker: Tracker, interruption: Interruption) -> Result:
    """Start training.distributed.processes / nodes of them here; meanwhile what they write goes to the tracker.

    A signal stops them after a checkpoint. Errors are those of run_processes.
    """
    folder = job.folder / PROCESSES
    folder.mkdir(exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    with atomic_file(folder / JOB) as partial:
        partial.write_text(job.model_dump_json(indent=1), encoding="utf-8")

    def watch() -> None:
        tracker()
        interruption.leave_if_noted()

    with interruption.held_back():
        run_processes(job.launch(), watch)
    result = read_json(folder / RESULT)
    if result is None:
        raise ConfigError(
            f"{folder / RESULT}: no result, though all processes ended well;\n"
            "with training.distributed.nodes above 1 all nodes must see the same RNNLM_HOME"
        )
    return Result(**result)
