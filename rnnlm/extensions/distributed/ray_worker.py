"""One rank of a distributed training run, started by Ray Train: the function that it runs, and when that ends early."""

import logging
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rnnlm.errors import ConfigError
from rnnlm.extensions.distributed.launcher import WATCH_INTERVAL_SECONDS
from rnnlm.extensions.distributed.worker import log_as_json, train_rank, write_error
from rnnlm.training.checkpointing.interruption import InterruptedTraining, Interruption


@dataclass(frozen=True)
class Lease:
    """The right to train a run: a file with the token of the launch that has it. A new launch takes the right over.

    The workers run on other machines, in a thread that gets no signals: this is how they learn that they must stop.
    """

    path: Path
    token: str

    def take(self) -> None:
        self.path.write_text(self.token)

    def is_held(self) -> bool:
        # Written in place and read: a network file system may know for a minute that a file does not exist, but asks
        # for its content whenever it is opened.
        try:
            return self.path.read_text() == self.token
        except FileNotFoundError:
            return False

    def give_back(self) -> None:
        if self.is_held():
            self.path.write_text("")


def train_worker(settings: dict[str, str]) -> None:
    """Train the job until it is done or the launch no longer holds the lease. settings: path of the job; token."""
    path = Path(settings["path"])
    rank = int(os.environ["RANK"])
    log_as_json(logging.INFO if rank == 0 else logging.WARNING)
    try:
        if not path.exists():
            raise ConfigError(f"{path}: not found on {socket.gethostname()}; all nodes must see the same RNNLM_HOME")
        interruption = Interruption()
        lease = Lease(path.with_name("lease"), settings["token"])
        threading.Thread(target=interrupt_without, args=(lease, interruption), daemon=True).start()
        train_rank(path, interruption)
    except InterruptedTraining:
        return
    except Exception as error:
        write_error(path.parent, rank, error)
        raise


def interrupt_without(lease: Lease, interruption: Interruption) -> None:
    """Make training stop as SIGTERM would, after a checkpoint, once the lease is not held."""
    while lease.is_held():
        time.sleep(WATCH_INTERVAL_SECONDS)
    interruption.received = signal.SIGTERM
