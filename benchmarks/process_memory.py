"""Measure the peak memory of a command together with its descendant processes. This works only on Linux."""

import subprocess
import sys
import threading
import time
from pathlib import Path


class PeakMemory:
    """A context that measures the peak memory of a process and its descendants in MiB."""

    def __init__(self, root: int, every_seconds: float = 0.05) -> None:
        self.root, self.every_seconds = root, every_seconds
        self.highest = 0.0
        self._finished = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> "PeakMemory":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._finished.wait(self.every_seconds):
            self.highest = max(self.highest, sum(map(proportional_set_size, tree(self.root))))

    def take(self) -> float:
        """Return the peak memory in MiB since the last call."""
        highest, self.highest = self.highest, 0.0
        return highest


def measured(command: list[str]) -> tuple[float, float, str]:
    """Run a command, and exit if the command fails.

    Return the peak memory of its process tree in MiB, its duration in seconds, and its output.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with PeakMemory(process.pid) as memory:
        output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{command} failed")
    return memory.take(), time.perf_counter() - start, output.strip()


def tree(root: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def proportional_set_size(pid: int) -> float:
    """Return the proportional set size of a process in MiB. A page that n processes share counts as 1/n."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
