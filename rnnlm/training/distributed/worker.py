"""One rank of a distributed training run, started by torchrun:

torchrun --nproc-per-node=2 -m rnnlm.training.distributed.worker RUN/processes/job.json
"""

import sys
from contextlib import nullcontext
from pathlib import Path

from filelock import FileLock

from rnnlm.errors import ConfigError
from rnnlm.home import write_json
from rnnlm.models.devices import choose_rank_device
from rnnlm.training.checkpointing.interruption import Interruption, defer_signals
from rnnlm.training.distributed.job import LOCK_FILE, RESULT_FILE, Job
from rnnlm.training.distributed.process_group import join_process_group
from rnnlm.training.distributed.worker_runtime import worker_process
from rnnlm.training.training_setup import train_in_this_process


def main(path: Path) -> None:
    with worker_process(path.parent), defer_signals() as interruption:
        train_rank(path, interruption)


def train_rank(path: Path, interruption: Interruption) -> None:
    """Train the job as one rank of the process group. path: of the job."""
    job = Job.model_validate_json(path.read_text(encoding="utf-8"))
    device = choose_rank_device(job.config.training.device)
    with join_process_group(device) as process_group:
        expected = job.config.training.distributed.processes
        if process_group.size != expected:
            raise ConfigError(
                f"{process_group.size} processes were started, expected {expected}\n"
                "(training.distributed.processes); start as many on each node: docs/how-to/several-processes.md"
            )
        # Processes whose launcher was killed may still be writing a checkpoint when new ones start.
        with FileLock(path.parent / LOCK_FILE) if process_group.is_main else nullcontext():
            result = train_in_this_process(job, device, lambda: None, interruption, process_group)
            if process_group.is_main:
                write_json(path.parent / RESULT_FILE, result.model_dump())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
