"""Programs that test_launcher.py runs in each of two processes with python rank_programs.py PROGRAM FOLDER."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import psutil

from rnnlm.errors import ConfigError
from rnnlm.extensions.distributed.worker import worker_process


def talk(folder: Path, rank: int) -> None:
    """Write the results of each collective operation, and the addresses on which this process and torchrun listen."""
    import torch

    from rnnlm.training.process_group import join_process_group

    with join_process_group(torch.device("cpu")) as process_group:
        mine = torch.arange(5)[process_group.rank :: process_group.size, None]
        found = {
            "largest": process_group.max((3, 7)[rank]),
            "rows": process_group.gather_rows(mine)[:, 0].tolist(),
            "is_main": process_group.is_main,
            "listening": [address for pid in (os.getpid(), os.getppid()) for address in listening(pid)],
        }
    (folder / f"rank-{rank}.json").write_text(json.dumps(found))


def listening(pid: int) -> list[str]:
    """Return the addresses on which a process accepts connections."""
    connections = psutil.Process(pid).net_connections("inet")
    return [connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN]


def sleep(folder: Path, rank: int) -> None:
    def note(number: int, frame: FrameType | None) -> None:
        (folder / f"terminated-{rank}").touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, note)
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    time.sleep(600)


def main(what: str, folder: Path) -> None:
    rank = int(os.environ["RANK"])
    if what != "sleep":
        (folder / f"pid-{rank}").write_text(str(os.getpid()))
    (folder / "torchrun").write_text(str(os.getppid()))
    with (folder / f"starts-{rank}").open("a") as starts:
        starts.write("x")
    with worker_process(folder):
        if what == "talk":
            talk(folder, rank)
        elif what == "sleep":
            sleep(folder, rank)
        elif what == "refuse":
            raise ConfigError("training.seed: expected another seed")
        elif what == "stumble" and rank == 1:
            print(1 / 0)
        elif what == "die" and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
