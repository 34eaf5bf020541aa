"""The logs of the servers: one file each in the home, read from the end."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from rnnlm.home import Home

SERVICES = ("up", "prefect", "mlflow", "deploy", "worker")


def log_file(home: Home, service: str) -> Path:
    folder = home.root / "logs"
    home.make(folder)
    return folder / f"{service}.log"


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines that are not blank."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace") as log:
        return [line.rstrip() for line in deque(filter(str.strip, log), maxlen=count)]


class LogReader:
    """Reads the lines that are appended to a log from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = path.stat().st_size if path.exists() else 0

    def new_lines(self) -> Iterator[str]:
        """Whole lines only; blank ones are left out."""
        if not self.path.exists():
            return
        if self.path.stat().st_size < self.position:  # moved away because it was long
            self.position = 0
        with self.path.open("rb") as log:
            log.seek(self.position)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self.position += len(line)
                if line.strip():
                    yield line.decode("utf-8", "replace").rstrip()

    def last_line(self) -> str:
        return next(iter(last_lines(self.path, 1)), "no output")
