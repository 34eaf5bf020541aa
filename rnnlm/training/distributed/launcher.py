"""Several processes for one training run: torchrun as a subprocess, watched until its end.

    this process ── torchrun ──┬── worker 0    reads the job, trains, writes the run's folder
                               └── worker 1 …  reads the job, trains

Lines that a worker logs come out of this process's own log, errors of ours as they were raised in the worker. When
this process ends, however it does, the workers see the end of their standard input and end, too.
"""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rnnlm import errors
from rnnlm.errors import RnnlmError, TrainingError
from rnnlm.subprocess_environment import python_path
from rnnlm.training.distributed.process_group import STORE

logger = logging.getLogger(__name__)
WATCH_STDIN = "RNNLM_WATCH_STDIN"  # environment: the end of standard input is the end of who started us
LOG_MARK = "@rnnlm "  # before a log record of a worker, as JSON
ERROR_FILES = "error-of-*.json"
EVERY_SECONDS = 0.5
PATIENCE_SECONDS = 25.0  # for a checkpoint and the end; Prefect kills 30 s after it has asked
FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")  # as torchrun says it


@dataclass(frozen=True)
class Launch:
    """program: what each worker runs, as Python is called (`-m MODULE ARGUMENT` or a file)."""

    program: tuple[str, ...]
    folder: Path  # where workers leave their errors
    processes: int  # on this node
    restarts: int = 0
    nodes: int = 1
    rendezvous: str | None = None  # host:port of the first node, where there are several
    first: bool = True  # this is that node
    name: str = "rnnlm"  # by which nodes tell one launch from another

    def command(self, stores: Path) -> list[str]:
        """stores: an empty folder in which the processes of one machine meet, instead of at an open port."""
        if self.nodes == 1:
            endpoint, settings = str(stores / "rendezvous"), "store_type=file"
        else:
            endpoint, settings = str(self.rendezvous), f"is_host={str(self.first).lower()}"
        return [
            *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={self.nodes}", f"--rdzv-id={self.name}"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--rdzv-conf={settings}"),
            *(f"--nproc-per-node={self.processes}", f"--max-restarts={self.restarts}", "--monitor-interval=0.2"),
            *self.program,
        ]

    def environment(self, stores: Path) -> dict[str, str]:
        defaults = {
            "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // self.processes)),
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # else a restarted worker meets the store of the dead one
        }
        if self.nodes == 1 and sys.platform == "linux":
            defaults["GLOO_SOCKET_IFNAME"] = "lo"
        own = {"PYTHONPATH": python_path(), "PYTHONSAFEPATH": "1", WATCH_STDIN: "1"}
        if self.nodes == 1:
            own[STORE] = str(stores / "store")
        return defaults | os.environ | own


@dataclass
class Output:
    """What comes out of torchrun and its workers, read by a thread: log records go on, the rest is remembered."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=50))
    exit_codes: list[tuple[int, int]] = field(default_factory=list)  # (code, process) as torchrun tells them

    def read(self, stream: "subprocess.Popen[str]") -> None:
        assert stream.stdout is not None
        for line in stream.stdout:
            before, mark, record = line.rstrip().partition(LOG_MARK)  # not all libraries end their last line
            if mark:
                hand_on(record)
            if before:
                logger.debug("%s", before)
                self.lines.append(before)
                self.exit_codes += [(int(code), int(process)) for code, process in FAILED.findall(before)]


def hand_on(record: str) -> None:
    """Log what a worker has logged."""
    try:
        said = json.loads(record)
    except ValueError:  # two processes wrote into one line; if this thread ended here, they would wait for ever
        return logger.info("%s", record)
    return logging.getLogger(said["name"]).log(said["level"], "%s", said["message"])


def run_processes(launch: Launch, watch: Callable[[], None]) -> None:
    """Return when all have ended well; call watch about twice a second until then, and stop them where it raises.

    A process that dies is restarted with all others, up to launch.restarts times. An error of ours is not tried
    again: it is raised here. TrainingError where they die too often.
    """
    launch.folder.mkdir(parents=True, exist_ok=True)
    for old in launch.folder.glob(ERROR_FILES):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="rnnlm-processes-") as stores:
        run_torchrun(launch, Path(stores), watch)


def run_torchrun(launch: Launch, stores: Path, watch: Callable[[], None]) -> None:
    # A session of its own: Ctrl-C in the terminal reaches this process alone, which then stops them in good order.
    process = subprocess.Popen(
        launch.command(stores),
        env=launch.environment(stores),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    output = Output()
    # In our context, so that Prefect knows to which run's log the lines belong.
    reader = threading.Thread(target=copy_context().run, args=(output.read, process), daemon=True)
    reader.start()
    try:
        while process.poll() is None:
            watch()
            raise_error_of_ours(launch.folder)
            wait(process, EVERY_SECONDS)
        watch()
        raise_error_of_ours(launch.folder)
    finally:
        stop(process)
        reader.join(EVERY_SECONDS)
    if process.returncode:
        raise TrainingError(what_went_wrong(launch, output, process.returncode))


def stop(process: "subprocess.Popen[str]") -> None:
    """SIGTERM reaches the workers by torchrun, and they write a checkpoint; who is too slow ends without."""
    if process.poll() is None:
        process.terminate()
        wait(process, PATIENCE_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()
    assert process.stdin is not None
    process.stdin.close()  # should a worker have outlived torchrun, this ends it


def wait(process: "subprocess.Popen[str]", seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def raise_error_of_ours(folder: Path) -> None:
    """The first error that the user can mend, as it was raised in a worker."""
    for error in worker_errors(folder):
        if error["ours"]:
            kind: type[RnnlmError] = getattr(errors, error["kind"], TrainingError)
            raise kind(error["message"])


def worker_errors(folder: Path) -> list[dict[str, Any]]:
    """Each process's last, the oldest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob(ERROR_FILES)]
    return sorted(found, key=lambda error: float(error["time"]))


def what_went_wrong(launch: Launch, output: Output, code: int) -> str:
    """Which process died of what, in three lines."""
    tried = f"restarts did not help (training.distributed.restarts={launch.restarts}); " if launch.restarts else ""
    ends = f"{tried}run again: training goes on from the last checkpoint"
    killed = [(code, process) for code, process in output.exit_codes if code < 0 and code != -signal.SIGTERM]
    if killed:  # the others then fail, too, for want of it
        number, process = killed[-1]
        name = signal.Signals(-number).name
        return (
            f"training process {process} of {launch.processes} was killed ({name}), perhaps for want of memory;\n{ends}"
        )
    found = worker_errors(launch.folder)
    if found:
        error = found[0]
        first = str(error["message"]).strip().splitlines()[:1]
        cause = f"training process {error['rank']} failed: {error['kind']}: {' '.join(first)[:200]}"
        return f"{cause};\n{ends}\n(more in {launch.folder})"
    last = output.lines[-1] if output.lines else "no output"
    return f"the training processes ended with code {code}: {last[:200]};\n{ends}"
