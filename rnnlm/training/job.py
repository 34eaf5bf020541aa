"""The description of a training job and its result.

The module does not import torch, which would take seconds.
"""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock

from rnnlm.config.model_config import ModelConfig
from rnnlm.config.training_config import TrainingConfig
from rnnlm.storage.records import DatasetRecord, ProcessChange, Record

# The environment variable with the path of a file through which the processes on one machine connect.
STORE = "RNNLM_PROCESS_STORE"
# The subfolder of a run's folder with the job and the result of distributed training, and its lock file.
PROCESSES = "processes"
LOCK_FILE = "lock"


class Job(Record):
    """All parameters of a training job. Its paths must be valid on every node."""

    folder: Path
    model: ModelConfig
    training: TrainingConfig
    dataset: DatasetRecord
    validation_batch_size: int  # The number of rows of a validation batch in sentence mode.
    log_every_seconds: float
    start: Path | None = None  # The folder of the model whose weights training starts from; see training/warm_start.py.
    # The file of additional targets (training/further_targets.py), or None if the text's own tokens are the only
    # targets.
    drawn_targets: Path | None = None


class TrainingResult(Record):
    trained_tokens: int
    best_validation_perplexity: float  # The validation perplexity after temperature scaling.
    temperature: float = 1.0  # The temperature by which the logits were divided in temperature scaling.
    process_changes: tuple[ProcessChange, ...] = ()


def former_processes_ended(folder: Path) -> AbstractContextManager[Any]:
    """Wait until the processes of a killed launcher have written their last checkpoint.

    `folder` is the folder of the run.
    """
    lock = folder / PROCESSES / LOCK_FILE
    return FileLock(lock) if lock.exists() else nullcontext()
