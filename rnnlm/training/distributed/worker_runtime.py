"""What every program under torchrun does: log to the process that launched it, tell its errors, end with it."""

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
from pathlib import Path

from rnnlm.errors import RnnlmError
from rnnlm.home import write_json
from rnnlm.training.distributed.launcher import EVERY_SECONDS, LOG_MARK, PATIENCE_SECONDS, WATCH_STDIN, worker_errors


@contextlib.contextmanager
def worker_process(folder: Path) -> Iterator[None]:
    """Of the processes' log lines those of rank 0, and the warnings of all. Errors are left in `folder`."""
    rank = int(os.environ.get("RANK", "0"))
    if os.environ.get(WATCH_STDIN):
        log_as_json(logging.INFO if rank == 0 else logging.WARNING)
        threading.Thread(target=end_with_standard_input, args=(os.getppid(),), daemon=True).start()
    try:
        yield
    except Exception as error:
        facts = {
            "rank": rank,
            "kind": type(error).__name__,
            "ours": isinstance(error, RnnlmError),
            "message": str(error),
            "time": time.time(),
            "traceback": traceback.format_exc(),
        }
        with contextlib.suppress(OSError):  # a full disk, say: torchrun still sees how we end
            write_json(folder / f"error-of-{rank}.json", facts)
        if os.environ.get(WATCH_STDIN):
            leave_it_to_the_launcher(folder)
        # At once: what is left of a process group whose other half is gone may wait for ever.
        sys.stderr.flush()
        os._exit(1)


def leave_it_to_the_launcher(folder: Path) -> None:
    """An error of ours, be it another process's, ends the launch: as soon as we ended torchrun would start anew."""
    time.sleep(2 * EVERY_SECONDS)  # who fails for want of another process is often quicker than that one
    if any(error["ours"] for error in worker_errors(folder)):
        time.sleep(PATIENCE_SECONDS)  # SIGTERM comes before


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {"name": record.name, "level": record.levelno, "message": record.getMessage()}
        return LOG_MARK + json.dumps(said)


def log_as_json(level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("rnnlm").setLevel(level)


def end_with_standard_input(torchrun: int) -> None:
    """Who launched us holds the other end of our standard input: when it is gone torchrun shall stop us, else we go."""
    while os.read(0, 1024):
        pass
    if os.getppid() == torchrun:
        with contextlib.suppress(ProcessLookupError):
            os.kill(torchrun, signal.SIGTERM)
        time.sleep(PATIENCE_SECONDS)
    os._exit(1)
