"""One rank of a distributed training run that Ray Train has started."""

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
    """The right to train a run: a file with the token of the launch that holds the right.

    A new launch overwrites the token, and workers whose token differs from it stop. They cannot be stopped by a signal,
    because they run on other machines, in a thread that receives no signals.
    """

    path: Path
    token: str

    def take(self) -> None:
        self.path.write_text(self.token)

    def is_held(self) -> bool:
        # The file is overwritten and not deleted, because a network file system may notice a deletion only after a
        # minute.
        try:
            return self.path.read_text() == self.token
        except FileNotFoundError:
            return False

    def give_back(self) -> None:
        if self.is_held():
            self.path.write_text("")


def train_worker(settings: dict[str, str]) -> None:
    """Run the job until training is finished or the launch no longer holds the lease.

    `settings` contains the path of the job file and the token of the launch.
    """
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
    """Interrupt training, as SIGTERM would, as soon as the launch no longer holds the lease.

    Training then writes a checkpoint and stops.
    """
    while lease.is_held():
        time.sleep(WATCH_INTERVAL_SECONDS)
    interruption.received = signal.SIGTERM
