"""The file that every flow run locks in the home while its process lives.

The kernel releases the lock however the process ends, so a free lock tells that the process is gone.
"""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from rnnlm.home import Home

if TYPE_CHECKING:
    from flows.operations.prefect_query import PrefectQuery

LOCK_SUFFIX = ".flow-run"
STARTS_WITHIN = timedelta(minutes=15)  # a worker starts the process of a pending run within seconds


def lock_folder(home: Home) -> Path:
    return home.root / "locks" / "flow-runs"


def lock_file(home: Home, run_id: UUID) -> Path:
    """The file that the flow run's process holds locked."""
    return lock_folder(home) / f"{run_id}{LOCK_SUFFIX}"


def unlocked_name(final: Path) -> Path:
    """The file's name until its process has locked it. A process killed before that leaves it under this name."""
    return final.with_name(f".{final.name}")


def may_still_be_locked(path: Path) -> bool:
    """Whether the file is so new that its process may be about to lock it."""
    return path.name.startswith(".") and age_seconds(path) < STARTS_WITHIN.total_seconds()


def age_seconds(path: Path) -> float:
    return time.time() - path.stat().st_mtime


@contextlib.contextmanager
def lock_released(path: Path) -> Iterator[bool]:
    """Yield whether the process that locked the file has ended; holds the lock so that nobody else settles the run."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # another process has settled the run
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield path.exists()
    finally:
        os.close(descriptor)


def has_dead_runs(home: Home, query: "PrefectQuery") -> bool:
    """Whether settle_dead_runs would have something to do, asked by plain HTTP: importing Prefect takes seconds."""
    ended = []
    for path in lock_folder(home).glob(f"*{LOCK_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError), lock_released(path) as dead:
            if dead and not may_still_be_locked(path):
                ended.append(path.stem.removeprefix("."))
    found = query.post("flow_runs/filter", flow_runs={"id": {"any_": ended}}) if ended else []
    return any(run["state"]["type"] != "COMPLETED" for run in found)


def oldest_living_run(home: Home) -> float | None:
    """When the oldest flow run whose process lives was started, in seconds since 1970; None if none lives."""
    started = []
    for path in lock_folder(home).glob(f"*{LOCK_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError), lock_released(path) as dead:
            if not dead or may_still_be_locked(path):
                started.append(path.stat().st_mtime)
    return min(started, default=None)


def lock_restored_runs(home: Home) -> int:
    """Give each living flow run of a restored database a lock file that nobody holds, so that it is settled as dead."""
    database = home.prefect / "prefect.db"
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("select id from flow_run where state_type in ('PENDING', 'RUNNING', 'CANCELLING')")
        paths = [lock_file(home, UUID(identity)) for (identity,) in rows]
    lock_folder(home).mkdir(parents=True, exist_ok=True)
    for path in paths:
        path.touch()
    return len(paths)
