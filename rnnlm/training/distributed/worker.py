"""One of several training processes. torchrun starts it:

torchrun --nproc-per-node=2 -m rnnlm.training.distributed.worker RUN/processes/job.json
"""

import sys
from contextlib import nullcontext
from pathlib import Path

from filelock import FileLock

from rnnlm.errors import ConfigError
from rnnlm.home import write_json
from rnnlm.training.checkpointing.interruption import noticing_signals
from rnnlm.training.devices import device_of_process
from rnnlm.training.distributed.job import RESULT, Job
from rnnlm.training.distributed.process_group import joined_world
from rnnlm.training.distributed.worker_runtime import worker_process
from rnnlm.training.training_setup import train_here


def main(path: Path) -> None:
    with worker_process(path.parent):
        job = Job.model_validate_json(path.read_text(encoding="utf-8"))
        device = device_of_process(job.config.training.device)
        with noticing_signals() as interruption, joined_world(device) as world:
            expected = job.config.training.distributed.processes
            if world.size != expected:
                raise ConfigError(
                    f"{world.size} processes were started, expected {expected} (training.distributed.processes);\n"
                    "start as many on each node: docs/several-processes.md"
                )
            # Processes whose launcher was killed may still be writing their checkpoint when the next ones come.
            with FileLock(path.parent / "lock") if world.leads else nullcontext():
                result = train_here(job.folder, job.config, job.dataset, device, lambda: None, interruption, world)
                if world.leads:
                    write_json(path.parent / RESULT, result.model_dump())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
