"""Join a training run that was started on another node with the same RNNLM_HOME (`rnnlm join HOST:PORT`)."""

import logging
import socket

from rnnlm.errors import ConfigError, TrainingError
from rnnlm.extensions.distributed.distributed_config import DistributedConfig
from rnnlm.extensions.distributed.launcher import JOB_FILE, launch_of, run_processes
from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home
from rnnlm.training.job import PROCESSES, Job

logger = logging.getLogger(__name__)
# The timeout in seconds for the first node to listen. It is long, because the first node may have to prepare the data.
JOIN_TIMEOUT_SECONDS = 3_600.0
RETRY_SECONDS = 1.0


def join(home: Home, rendezvous: str, timeout_seconds: float = JOIN_TIMEOUT_SECONDS) -> str:
    """Train together with the node at host:port until the run is finished, and return the run's id.

    Raise TrainingError if no process listens at that address.
    """
    if not rendezvous.rpartition(":")[2].isdigit():
        raise ConfigError(f"{rendezvous}: expected host:port, as in the first node's training.distributed.rendezvous")
    # The job with this address that was written last is the right one, because the first node writes it before it
    # listens.
    if not poll_until(lambda: is_listening(rendezvous), timeout_seconds, RETRY_SECONDS):
        raise TrainingError(
            f"{rendezvous}: no process listens there after {timeout_seconds:.0f} s; start the first node with\n"
            f"--set training.distributed.rendezvous={rendezvous}, and check the address and the firewall"
        )
    job = find_newest_job(home, rendezvous)
    logger.info("joining run %s at %s", job.folder.name, rendezvous)
    run_processes(launch_of(job, first=False), lambda: None)
    return job.folder.name


def is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def find_newest_job(home: Home, rendezvous: str) -> Job:
    paths = sorted(home.runs.glob(f"*/{PROCESSES}/{JOB_FILE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in paths:
        job = Job.model_validate_json(path.read_text(encoding="utf-8"))
        if DistributedConfig.of(job.training).rendezvous == rendezvous:
            return job
    raise TrainingError(
        f"{home.runs}: no run here has the rendezvous {rendezvous}, although a process listens there;\n"
        "all nodes must see the same RNNLM_HOME"
    )
