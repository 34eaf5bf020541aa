"""Train a run in several processes: start torchrun or ray_launcher.py as a subprocess, and monitor it.

    this process ── torchrun ──┬── worker 0    reads the job, trains, writes the run's folder
                               └── worker 1 …  reads the job, trains

The workers' log records appear in this process's log, and their RnnlmErrors are raised again here. If this process ends
for any reason, the standard input of the workers ends, and they end as well.
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

import psutil

from rnnlm import errors
from rnnlm.display.progress import SHARE, ProgressReport, tell_listeners
from rnnlm.errors import ConfigError, RnnlmError, TrainingError
from rnnlm.extensions.distributed.distributed_config import DistributedConfig
from rnnlm.runtime.subprocess_environment import python_path
from rnnlm.storage.home import atomic_file, read_json
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.history import Tracker
from rnnlm.training.job import PROCESSES, STORE, Job, TrainingResult

logger = logging.getLogger(__name__)
# This module and worker.py do not import torch, because the import would delay every restart of a process by seconds.

# An environment variable. If it is set, a worker exits at the end of its standard input, because its launcher has
# ended.
WATCH_STDIN = "RNNLM_WATCH_STDIN"
LOG_MARK = "@rnnlm "  # The prefix of a worker's log records, which are printed as JSON.
JOB_FILE, RESULT_FILE = "job.json", "result.json"  # The names of two files in a run's PROCESSES folder.
ERROR_FILES = "error-of-*.json"
WATCH_INTERVAL_SECONDS = 0.5
# The timeout in seconds for workers to write a checkpoint and end. Prefect kills a process 30 s after its first signal.
STOP_TIMEOUT_SECONDS = 25.0
# The worker's name and process id, which Ray puts before each line of its output.
RAY_PREFIX = re.compile(r"^\([^()]*pid=\d+[^()]*\) ")
# The pattern of the line that torchrun prints for a failed process.
FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")


@dataclass(frozen=True)
class Launch:
    """The processes to run on this node, and the arguments with which torchrun starts them."""

    program: tuple[str, ...]  # The arguments of Python in each worker: `-m MODULE ARGUMENT`, or a file.
    folder: Path  # The folder where workers write their errors.
    processes: int  # The number of processes on this node.
    restarts: int = 0
    nodes: int = 1
    rendezvous: str | None = None  # The address host:port of the first node, or None if there is only one node.
    first: bool = True  # True if this is the first node.
    name: str = "rnnlm"  # A name that all nodes of this launch share. No other launch has the same name.

    def command(self, stores: Path) -> list[str]:
        """Return the command that starts the processes.

        `stores` is an empty folder, through which the processes of a single machine find each other without an open
        port.
        """
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
            # The store is not shared, because a restarted worker would connect to the store of the dead worker.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        if self.nodes == 1:
            defaults["GLOO_SOCKET_IFNAME"] = loopback_interface()
        own = {"PYTHONPATH": python_path(), "PYTHONSAFEPATH": "1", WATCH_STDIN: "1"}
        if self.nodes == 1:
            own[STORE] = str(stores / "store")
        return defaults | os.environ | own


def loopback_interface() -> str:
    """Return the name of the loopback interface, lo on Linux and lo0 on macOS."""
    interfaces = psutil.net_if_addrs().items()
    return next(name for name, addresses in interfaces if any(one.address == "127.0.0.1" for one in addresses))


class RayLaunch(Launch):
    """The processes to run on a Ray cluster.

    The main program runs on this machine and requests the workers from Ray Train.
    """

    def command(self, stores: Path) -> list[str]:
        return [sys.executable, *self.program]

    def environment(self, stores: Path) -> dict[str, str]:
        # These settings make Ray print all lines of the workers, each after a prefix without colour.
        output = {"RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0"}
        return os.environ | output | {"PYTHONPATH": python_path(), "PYTHONSAFEPATH": "1", WATCH_STDIN: "1"}


def launch_of(job: Job, first: bool = True) -> Launch:
    """Return the launcher that starts one node's processes or, on a Ray cluster, all processes."""
    distributed = DistributedConfig.of(job.training)
    folder = job.folder / PROCESSES
    path = str(folder / JOB_FILE)
    if distributed.launcher == "ray":
        program = ("-m", "rnnlm.extensions.distributed.ray_launcher", path)
        return RayLaunch(program, folder, distributed.processes, distributed.restarts)
    return Launch(
        program=("-m", "rnnlm.extensions.distributed.worker", path),
        folder=folder,
        processes=distributed.processes // distributed.nodes,
        restarts=distributed.restarts,
        nodes=distributed.nodes,
        rendezvous=distributed.rendezvous,
        first=first,
        name=job.folder.name,
    )


def train_in_processes(job: Job, tracker: Tracker, interruption: Interruption) -> TrainingResult:
    """Train in other processes, and call `tracker` regularly to log the metrics that they write.

    After a signal, the processes write a checkpoint and are stopped. The exceptions of run_processes() are passed on.
    """
    folder = job.folder / PROCESSES
    folder.mkdir(exist_ok=True)
    (folder / RESULT_FILE).unlink(missing_ok=True)
    with atomic_file(folder / JOB_FILE) as partial:
        partial.write_text(job.model_dump_json(indent=1), encoding="utf-8")

    def poll() -> None:
        tracker()
        interruption.raise_if_received()

    with interruption.deferred():
        run_processes(launch_of(job), poll)
    result = read_json(folder / RESULT_FILE)
    if result is None:
        raise ConfigError(
            f"{folder / RESULT_FILE}: missing, although all processes succeeded;\n"
            "all nodes that train must see the same RNNLM_HOME"
        )
    return TrainingResult(**result)


@dataclass
class Output:
    """The output of the launcher and its workers, read in a thread.

    Log records are logged, and other lines are stored.
    """

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=50))
    # Pairs of exit code and local rank, in the order in which torchrun prints them.
    exit_codes: list[tuple[int, int]] = field(default_factory=list)

    def read(self, stream: "subprocess.Popen[str]") -> None:
        assert stream.stdout is not None
        for line in stream.stdout:
            # A log record may follow other text on the same line, because some libraries do not end their last line.
            before, mark, record = RAY_PREFIX.sub("", line.rstrip()).partition(LOG_MARK)
            if mark:
                log_worker_record(record)
            if before:
                logger.debug("%s", before)
                self.lines.append(before)
                self.exit_codes += [(int(code), int(process)) for code, process in FAILED.findall(before)]


def log_worker_record(text: str) -> None:
    try:
        record = json.loads(text)
    # Two processes have written to the same line. The error is ignored, because without this thread the processes would
    # block on a full pipe.
    except ValueError:
        return logger.info("%s", text)
    if SHARE in record:
        tell_listeners(ProgressReport(record["message"], record[SHARE]))
    return logging.getLogger(record["name"]).log(record["level"], "%s", record["message"])


def run_processes(launch: Launch, poll: Callable[[], None]) -> None:
    """Run the processes until all have succeeded. Call `poll` about twice a second.

    If `poll` raises, the processes are stopped. If a process dies, all processes are restarted, at most launch.restarts
    times. Raise TrainingError if a process dies after the last restart. Raise the RnnlmError of a worker at once,
    without a restart.
    """
    launch.folder.mkdir(parents=True, exist_ok=True)
    for old in launch.folder.glob(ERROR_FILES):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="rnnlm-processes-") as stores:
        run_launcher(launch, Path(stores), poll)


def run_launcher(launch: Launch, stores: Path, poll: Callable[[], None]) -> None:
    # The launcher has its own session, so Ctrl-C reaches only this process, which then stops the launcher and its
    # workers.
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
    # The thread runs in a copy of this context, so that Prefect assigns its log lines to this flow run.
    reader = threading.Thread(target=copy_context().run, args=(output.read, process), daemon=True)
    reader.start()
    try:
        while process.poll() is None:
            poll()
            raise_worker_error(launch.folder)
            wait_up_to(process, WATCH_INTERVAL_SECONDS)
        poll()
        raise_worker_error(launch.folder)
    finally:
        stop_processes(process)
        reader.join(WATCH_INTERVAL_SECONDS)
    if process.returncode:
        raise TrainingError(describe_failure(launch, output, process.returncode))


def stop_processes(process: "subprocess.Popen[str]") -> None:
    """Stop the launcher with SIGTERM, or kill it if it takes too long.

    The launcher passes the signal on to the workers, which write a checkpoint and end.
    """
    if process.poll() is None:
        process.terminate()
        wait_up_to(process, STOP_TIMEOUT_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()
    assert process.stdin is not None
    process.stdin.close()  # A worker that has outlived its launcher ends when its standard input is closed.


def wait_up_to(process: "subprocess.Popen[str]", seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def raise_worker_error(folder: Path) -> None:
    """Raise the first RnnlmError of a worker, if there is one.

    Such an error would occur again after a restart, because only the user can resolve it.
    """
    for error in read_worker_errors(folder):
        if error["is_rnnlm_error"]:
            kind: type[RnnlmError] = getattr(errors, error["kind"], TrainingError)
            raise kind(error["message"])


def read_worker_errors(folder: Path) -> list[dict[str, Any]]:
    """Return the last error that each process has written, the oldest error first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob(ERROR_FILES)]
    return sorted(found, key=lambda error: float(error["time"]))


def describe_failure(launch: Launch, output: Output, code: int) -> str:
    killed = [(code, process) for code, process in output.exit_codes if code < 0 and code != -signal.SIGTERM]
    reason = None
    if killed:
        number, process = killed[-1]
        name = signal.Signals(-number).name
        reason = f"training process {process} of {launch.processes} was killed ({name})"
    last = output.lines[-1] if output.lines else "no output"
    otherwise = f"the training processes ended with code {code}: {last[:200]}"
    return failure_message(launch.folder, launch.restarts, reason, otherwise)


def failure_message(folder: Path, restarts: int, killed: str | None, otherwise: str) -> str:
    """Return a message of at most three lines that reports which process failed and why.

    `killed` describes the process that was killed, if there is one. In this case, the errors of other processes are not
    reported, because the killed process has caused them.
    """
    tried = f"restarts did not help (training.distributed.restarts={restarts}); " if restarts else ""
    advice = f"{tried}run again: training resumes from the last checkpoint"
    if killed is not None:
        return f"{killed}, possibly out of memory;\n{advice}"
    found = read_worker_errors(folder)
    if not found:
        return f"{otherwise};\n{advice}"
    first_line = " ".join(str(found[0]["message"]).strip().splitlines()[:1])[:200]
    failed = f"training process {found[0]['rank']} failed: {found[0]['kind']}: {first_line}"
    return f"{failed};\n{advice}\n(the whole output is in {folder})"
