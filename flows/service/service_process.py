"""One server or worker of `rnnlm up`: a process in its own session, with its log in a file."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LOG_BYTES = 10_000_000  # a longer log is moved to NAME.log.1 and begun anew
SERVICE_VARIABLE = "RNNLM_SERVICE"  # in the environment of every process of a service: its name


@dataclass(eq=False)  # one is equal only to itself
class ServiceProcess:
    """Start, stop and restart one service. The log is opened in append mode, so the process outlives its reader."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    problem: Callable[[], str]  # why it does not answer yet, or "" if it does
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C on the terminal reaches only `rnnlm up`, which stops the services in order.
            self.process = subprocess.Popen(
                self.command,
                cwd=self.log.parent,
                env=self.environment | {SERVICE_VARIABLE: self.name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """None while it runs, or was never started."""
        return None if self.process is None else self.process.poll()

    def pause(self) -> None:
        """Suspend the process, so that it starts nothing more before it is stopped."""
        self.signal(signal.SIGSTOP)

    def stop(self, seconds: float) -> None:
        """Ask the process to end, and kill whatever is left of its group after `seconds`. Idempotent."""
        if self.process is None:
            return
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused process gets SIGTERM when it continues
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the whole group: a server may have children of its own."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def rotate_log(self) -> None:
        """Keep the log below LOG_BYTES. The process writes on: its file is in append mode."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
            os.truncate(self.log, 0)
