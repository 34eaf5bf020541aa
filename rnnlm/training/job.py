"""The job of a process that trains, and its result. Needs no torch, whose import takes seconds."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock

from rnnlm.config.model_config import ModelConfig
from rnnlm.config.training_config import TrainingConfig
from rnnlm.storage.records import DatasetRecord, ProcessChange, Record

STORE = "RNNLM_PROCESS_STORE"  # environment variable: the file through which processes on one machine find each other
PROCESSES = "processes"  # in a run's folder: job and result of other processes
LOCK_FILE = "lock"  # in PROCESSES


class Job(Record):
    """Everything that training needs to know. Paths must be the same on all nodes."""

    folder: Path  # of the run
    model: ModelConfig
    training: TrainingConfig
    dataset: DatasetRecord
    validation_batch_size: int  # sequences, sentence mode
    log_every_seconds: float
    start: Path | None = None  # folder of the model to begin with; see training/warm_start.py
    drawn_targets: Path | None = None  # see training/further_targets.py; None: the text's alone


class TrainingResult(Record):
    trained_tokens: int
    best_validation_perplexity: float  # after temperature scaling
    temperature: float = 1.0  # by which the logits were divided
    process_changes: tuple[ProcessChange, ...] = ()


def former_processes_ended(folder: Path) -> AbstractContextManager[Any]:
    """Wait until processes whose launcher was killed have written their last checkpoint. folder: of the run."""
    lock = folder / PROCESSES / LOCK_FILE
    return FileLock(lock) if lock.exists() else nullcontext()
