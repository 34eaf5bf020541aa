"""How much memory a command and all processes below it take together at their peak. Linux alone."""

import subprocess
import sys
import threading
import time
from pathlib import Path


def measured(command: list[str]) -> tuple[float, float, str]:
    """(peak MiB over the process tree, seconds, what it printed) of a command; it ends this program if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0.0
    finished = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not finished.wait(0.05):
            peak = max(peak, sum(map(proportional_set_size, tree(process.pid))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    finished.set()
    watcher.join()
    if process.returncode:
        sys.exit(f"{command} failed")
    return peak, time.perf_counter() - start, output.strip()


def tree(root: int) -> list[int]:
    """A process and all below it."""
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
    """MiB; pages shared by n processes count for 1/n in each."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
