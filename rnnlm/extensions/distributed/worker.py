"""One rank of a distributed training run that torchrun has started.

torchrun --nproc-per-node=2 -m rnnlm.extensions.distributed.worker RUN/processes/job.json

The process sends its log and its errors to the launcher, and exits when the launcher has ended.
"""

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from rnnlm.display.progress import SHARE
from rnnlm.errors import ConfigError, RnnlmError
from rnnlm.extensions.distributed.distributed_config import DistributedConfig
from rnnlm.extensions.distributed.launcher import (
    LOG_MARK,
    RESULT_FILE,
    STOP_TIMEOUT_SECONDS,
    WATCH_INTERVAL_SECONDS,
    WATCH_STDIN,
    read_worker_errors,
)
from rnnlm.storage.home import write_json
from rnnlm.training.checkpointing.interruption import Interruption, defer_signals
from rnnlm.training.job import LOCK_FILE, Job


def main(path: Path) -> None:
    with worker_process(path.parent), defer_signals() as interruption:
        train_rank(path, interruption)


def train_rank(path: Path, interruption: Interruption) -> None:
    """Run the job in the file `path` as one rank of the process group."""
    # torch is imported here, because the import takes seconds and worker_process() must start before it.
    from rnnlm.models.devices import choose_rank_device
    from rnnlm.training.process_group import join_process_group
    from rnnlm.training.samples import listener_of_job
    from rnnlm.training.train import train

    job = Job.model_validate_json(path.read_text(encoding="utf-8"))
    device = choose_rank_device(job.training.device)
    with join_process_group(device) as process_group:
        distributed = DistributedConfig.of(job.training)
        process_group = replace(process_group, size_at_start=distributed.processes_at_start)
        expected = distributed.processes
        if process_group.size != expected:
            raise ConfigError(
                f"{process_group.size} processes were started, expected {expected}\n"
                "(training.distributed.processes); start as many on each node: docs/how-to/distributed.md"
            )
        # The lock makes rank 0 wait for the processes of a killed launcher, which may still be writing a checkpoint.
        with FileLock(path.parent / LOCK_FILE) if process_group.is_main else contextlib.nullcontext():
            result = train(job, device, listener_of_job(job), interruption, process_group)
            if process_group.is_main:
                write_json(path.parent / RESULT_FILE, result.model_dump())


@contextlib.contextmanager
def worker_process(folder: Path) -> Iterator[None]:
    """Log at level INFO on rank 0 and WARNING on other ranks. If an exception is raised, write it to `folder`."""
    rank = int(os.environ.get("RANK", "0"))
    if os.environ.get(WATCH_STDIN):
        log_as_json(logging.INFO if rank == 0 else logging.WARNING)
        threading.Thread(target=exit_with_standard_input, args=(os.getppid(),), daemon=True).start()
    try:
        yield
    except Exception as error:
        write_error(folder, rank, error)
        if os.environ.get(WATCH_STDIN):
            wait_for_launcher(folder)
        # The process exits without a teardown, because a process group may wait forever for a dead rank.
        sys.stderr.flush()
        os._exit(1)


def write_error(folder: Path, rank: int | str, error: Exception) -> None:
    """Write the error that is being handled to a file that the launcher reads."""
    facts = {
        "rank": rank,
        "kind": type(error).__name__,
        "is_rnnlm_error": isinstance(error, RnnlmError),
        "message": str(error),
        "time": time.time(),
        "traceback": traceback.format_exc(),
    }
    # If writing fails, for example on a full disk, the launcher still notices that the process failed.
    with contextlib.suppress(OSError):
        write_json(folder / f"error-of-{rank}.json", facts)


def wait_for_launcher(folder: Path) -> None:
    """Wait for the launcher to stop this process if a rank has raised an RnnlmError.

    If this process exited before the launcher's signal, torchrun would restart all ranks in vain.
    """
    # The pause lets the rank with the original error write it first, because errors that follow from it may be raised
    # here earlier.
    time.sleep(2 * WATCH_INTERVAL_SECONDS)
    if any(error["is_rnnlm_error"] for error in read_worker_errors(folder)):
        time.sleep(STOP_TIMEOUT_SECONDS)  # The launcher's SIGTERM ends this process during the sleep.


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {"name": record.name, "level": record.levelno, "message": record.getMessage()}
        if hasattr(record, SHARE):
            fields[SHARE] = getattr(record, SHARE)
        return LOG_MARK + json.dumps(fields)


def log_as_json(level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("rnnlm").setLevel(level)


def exit_with_standard_input(torchrun: int) -> None:
    """Exit at the end of standard input, which means that the launcher has ended. Make torchrun stop all ranks."""
    while os.read(0, 1024):
        pass
    if os.getppid() == torchrun:
        with contextlib.suppress(ProcessLookupError):
            os.kill(torchrun, signal.SIGTERM)
        time.sleep(STOP_TIMEOUT_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
