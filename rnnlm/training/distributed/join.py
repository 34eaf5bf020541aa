"""Another node's part of a training run that has been started elsewhere, over the same RNNLM_HOME.

python -m rnnlm.training.distributed.join HOST:PORT     what the first node has as training.distributed.rendezvous
"""

import logging
import socket
import time

from rnnlm.errors import ConfigError, TrainingError
from rnnlm.home import Home
from rnnlm.training.distributed.job import JOB, PROCESSES, Job
from rnnlm.training.distributed.launcher import run_processes

logger = logging.getLogger(__name__)
PATIENCE_SECONDS = 3_600.0  # for the first node, which may have to prepare the data
EVERY_SECONDS = 1.0


def join(home: Home, rendezvous: str, patience_seconds: float = PATIENCE_SECONDS) -> str:
    """Train with the node at host:port, until the run is done; its id. TrainingError where it does not turn up."""
    if not rendezvous.rpartition(":")[2].isdigit():
        raise ConfigError(f"{rendezvous}: expected host:port, as in the first node's training.distributed.rendezvous")
    deadline = time.monotonic() + patience_seconds
    # It first writes the job, then listens: once it does, the newest job with this address is the one.
    while not listens(rendezvous):
        if time.monotonic() > deadline:
            raise TrainingError(
                f"{rendezvous}: nobody listens after {patience_seconds:.0f} s; start the first node, with\n"
                f"--set training.distributed.rendezvous={rendezvous}, and check the address and the firewall"
            )
        time.sleep(EVERY_SECONDS)
    job = newest_job(home, rendezvous)
    logger.info("joining run %s at %s", job.folder.name, rendezvous)
    run_processes(job.launch(first=False), lambda: None)
    return job.folder.name


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def newest_job(home: Home, rendezvous: str) -> Job:
    paths = sorted(home.runs.glob(f"*/{PROCESSES}/{JOB}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in paths:
        job = Job.model_validate_json(path.read_text(encoding="utf-8"))
        if job.config.training.distributed.rendezvous == rendezvous:
            return job
    raise TrainingError(
        f"{home.runs}: no run here meets at {rendezvous}, though somebody listens there;\n"
        "all nodes must see the same RNNLM_HOME"
    )
