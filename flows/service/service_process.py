"""A server or worker of `rnnlm up` and its log. It runs in a separate session, and is restarted if it ends."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from rnnlm.storage.home import Home

SERVICES = ("up", "prefect", "mlflow", "deploy", "worker")
# The environment variable with a service's name, which is set in every process of the service.
SERVICE_VARIABLE = "RNNLM_SERVICE"
LOG_BYTES = 10_000_000  # The size at which a log is renamed to NAME.log.1 and a new log is started.
STABLE_SECONDS = 60.0  # After a run of this many seconds, the delay before the next start is 1 s again.
LONGEST_DELAY_SECONDS = 60.0  # The longest delay in seconds before a service that dies repeatedly is restarted.


class ServiceProcess:
    """A service that can be started, stopped and restarted.

    The service's own process opens the log in append mode, and can continue if the process that reads the log ends.
    """

    def __init__(self, home: Home, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self.command = command
        self.environment = environment | {SERVICE_VARIABLE: name}
        self.log = log_file(home, name)
        self.reader = LogReader(self.log)
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0  # The time of the last start on the monotonic clock.
        self.failures = 0  # The number of starts since the service last ran for STABLE_SECONDS.
        self.restart_at: float | None = None

    def start(self) -> None:
        self.restart_at = None
        self.started_at = time.monotonic()
        with self.log.open("ab") as log:
            # Ctrl-C does not reach the service, because it has a separate session. `rnnlm up` stops the services in
            # order.
            self.process = subprocess.Popen(
                self.command,
                cwd=self.log.parent,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the service is running or was never started."""
        return None if self.process is None else self.process.poll()

    def plan_restart(self) -> float:
        """Choose the time of the next start, and return the delay.

        The delay is 1 s, and doubles after each start that does not last STABLE_SECONDS.
        """
        now = time.monotonic()
        failures = 0 if now - self.started_at > STABLE_SECONDS else self.failures
        delay = min(2.0**failures, LONGEST_DELAY_SECONDS)
        self.failures, self.restart_at = failures + 1, now + delay
        return delay

    def pause(self) -> None:
        """Suspend the process, so that it starts no further processes until it is stopped."""
        if self.exit_code() is None:
            self.signal(signal.SIGSTOP)

    def stop(self, seconds: float) -> None:
        """Send SIGTERM to the process group, and SIGKILL to all processes that still run after `seconds`.

        This method may be called again.
        """
        if self.process is None:
            return
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # The process is continued, because a suspended process does not receive SIGTERM.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group, because a server may have children."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def rotate_log(self) -> None:
        """Rename the log if it exceeds LOG_BYTES.

        The process can continue to write, because it opened the file in append mode.
        """
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
            os.truncate(self.log, 0)


def log_file(home: Home, service: str) -> Path:
    folder = home.root / "logs"
    home.make(folder)
    return folder / f"{service}.log"


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last `count` lines of the file that are not blank."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace") as log:
        return [line.rstrip() for line in deque(filter(str.strip, log), maxlen=count)]


class LogReader:
    """A reader of the lines that are appended to a log after its creation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = path.stat().st_size if path.exists() else 0

    def new_lines(self) -> Iterator[str]:
        """Yield the new complete lines that are not blank."""
        if not self.path.exists():
            return
        # The log is shorter than at the last reading, because the former log was renamed and a new log was started.
        if self.path.stat().st_size < self.position:
            self.position = 0
        with self.path.open("rb") as log:
            log.seek(self.position)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self.position += len(line)
                if line.strip():
                    yield line.decode("utf-8", "replace").rstrip()
