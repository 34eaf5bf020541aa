"""Run a training job on a Ray cluster. Ray Train starts the workers, and restarts all of them if one is lost.

python -m rnnlm.extensions.distributed.ray_launcher RUN/processes/job.json

    this process ── Ray Train's controller ──┬── worker 0    reads the job, trains, writes the run's folder
                                             └── worker 1 …  reads the job, trains

This module runs in a separate process, because Ray changes the signal handlers and logging of its process.
"""

import logging
import os
import re
import signal
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from rnnlm.errors import EngineError, RnnlmError, TrainingError
from rnnlm.extensions.distributed.distributed_config import DistributedConfig
from rnnlm.extensions.distributed.join import is_listening
from rnnlm.extensions.distributed.launcher import (
    STOP_TIMEOUT_SECONDS,
    WATCH_STDIN,
    failure_message,
    read_worker_errors,
)
from rnnlm.extensions.distributed.ray_worker import Lease, train_worker
from rnnlm.extensions.distributed.worker import log_as_json, write_error
from rnnlm.training.job import Job
from rnnlm.training.process_group import TIMEOUT, choose_backend

# The name is written out, because `__name__` is "__main__" in this process.
logger = logging.getLogger("rnnlm.extensions.distributed.ray_launcher")


def main(path: Path) -> None:
    """Run the job on the cluster. Exit with code 1 if the job does not complete."""
    log_as_json(logging.INFO)
    lease = Lease(path.with_name("lease"), uuid.uuid4().hex)
    lease.take()
    if os.environ.get(WATCH_STDIN):
        threading.Thread(target=stop_with_standard_input, args=(lease,), daemon=True).start()
    try:
        run_workers(path, lease)
    except RnnlmError as error:
        write_error(path.parent, "launcher", error)
        sys.exit(1)
    if not lease.is_held():
        sys.exit(1)


def run_workers(path: Path, lease: Lease) -> None:
    """Run the workers until all have ended. Raise TrainingError if they fail after the last restart."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer

    job = Job.model_validate_json(path.read_text(encoding="utf-8"))
    training = job.training
    resources = connect()
    # stop() replaces the handler that Ray has installed.
    signal.signal(signal.SIGTERM, lambda number, frame: stop(lease))
    distributed = DistributedConfig.of(training)
    processes = distributed.processes
    use_gpu = choose_gpu(training.device, processes, resources)
    trainer = TorchTrainer(
        train_worker,
        train_loop_config={"path": str(path), "token": lease.token},
        torch_config=TorchConfig(choose_backend(use_gpu), timeout_s=int(TIMEOUT.total_seconds())),
        scaling_config=ScalingConfig(num_workers=processes, use_gpu=use_gpu),
        run_config=RunConfig(
            name="ray",
            storage_path=str(path.parent),
            failure_config=FailureConfig(max_failures=distributed.restarts),
        ),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        raise find_cause(error, job, path.parent) from error


def connect() -> dict[str, float]:
    """Connect to the cluster at the address in the environment variable RAY_ADDRESS, and return its resources.

    If RAY_ADDRESS is not set, Ray looks for a cluster on this machine, or starts one.
    """
    import ray
    from ray.exceptions import RayError

    address = os.environ.get("RAY_ADDRESS", "")
    try:
        if re.fullmatch(r"[^/]+:\d+", address) and not is_listening(address):
            # The error is raised here, because ray.init would try to connect for a quarter of an hour.
            raise ConnectionError("no process listens there")
        ray.init(logging_level=logging.WARNING)
        return dict(ray.cluster_resources())
    except (RayError, ConnectionError) as error:
        raise EngineError(
            f"RAY_ADDRESS={address}: no Ray cluster answers ({str(error).splitlines()[0][:200]});\n"
            "start it with ray start --head, or correct the address"
        ) from error


def choose_gpu(device: str, processes: int, cluster: dict[str, float]) -> bool:
    """Return True if each worker gets a GPU.

    With device `auto`, this requires enough GPUs in the cluster for all workers. Log a warning if training must wait
    until the cluster has enough resources.
    """
    use_gpu = device == "cuda" or (device == "auto" and cluster.get("GPU", 0) >= processes)
    resource = "GPU" if use_gpu else "CPU"
    if (there := cluster.get(resource, 0)) < processes:
        logger.warning("training: waiting until the Ray cluster has %d %ss; it has %d", processes, resource, there)
    return use_gpu


def stop(lease: Lease) -> None:
    """Let the workers write a checkpoint and end.

    If a worker has failed, kill all workers, because the others would wait for the failed one.
    """
    if any(error["is_rnnlm_error"] for error in read_worker_errors(lease.path.parent)):
        os._exit(1)  # Ray ends the workers when the launcher's process ends.
    lease.give_back()


def stop_with_standard_input(lease: Lease) -> None:
    """Stop the workers at the end of standard input, which means that the parent process has ended."""
    while os.read(0, 1024):
        pass
    stop(lease)
    time.sleep(STOP_TIMEOUT_SECONDS)
    os._exit(1)


def find_cause(error: Exception, job: Job, folder: Path) -> RnnlmError:
    """Return the worker's error that ended training, or an error that reports why a worker was lost or not started."""
    distributed = DistributedConfig.of(job.training)
    failures: dict[int, Any] = getattr(error, "worker_failures", {})
    for failure in failures.values():
        if isinstance(failure, RnnlmError):
            return failure
    lost = [rank for rank, failure in failures.items() if hasattr(failure, "health_check_failure")]
    killed = f"training process {lost[0]} of {distributed.processes} was killed or its node was lost" if lost else None
    otherwise = f"Ray Train failed: {' '.join(str(error).splitlines()[:2])[:200]}"
    kind = TrainingError if lost or read_worker_errors(folder) else EngineError
    return kind(failure_message(folder, distributed.restarts, killed, otherwise))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
