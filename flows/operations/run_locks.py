"""One file per flow run in the rnnlm home, which the run's process keeps locked until it ends.

The kernel releases the lock however the process ends, so a free lock shows that the process has ended.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rnnlm.runtime.recent_times import is_recent
from rnnlm.storage.home import Home

if TYPE_CHECKING:
    from flows.operations.prefect_query import PrefectQuery

LOCK_SUFFIX = ".flow-run"
# The timeout for a new process to lock its file. A worker usually starts a process within seconds.
STARTS_WITHIN = timedelta(minutes=15)


def lock_folder(home: Home) -> Path:
    return home.root / "locks" / "flow-runs"


def lock_file(home: Home, run_id: UUID) -> Path:
    """Return the file that the flow run's process keeps locked."""
    return lock_folder(home) / f"{run_id}{LOCK_SUFFIX}"


def unlocked_name(final: Path) -> Path:
    """Return the temporary name that the file has until its process has locked it.

    If the process is killed before it locks the file, the file keeps this name.
    """
    return final.with_name(f".{final.name}")


def hold_until_end(home: Home, run_id: UUID) -> None:
    """Lock the flow run's file until this process ends."""
    final = lock_file(home, run_id)
    home.make(final.parent)
    partial = unlocked_name(final)
    # The descriptor is never closed, because closing it would release the lock.
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # The file is renamed only after it was locked, because an unlocked file with the final name counts as a dead run.
    partial.replace(final)


def run_id_of(path: Path) -> UUID:
    return UUID(path.stem.removeprefix("."))


def run_locks(home: Home) -> Iterator[tuple[Path, float, bool]]:
    """Yield each lock file, the time of its creation (in seconds since 1970), and True if its process has ended.

    The lock of an ended run is held until the next file is requested, so that no other process settles the run. The
    process of a new unlocked file counts as running, because it may be about to lock the file.
    """
    for path in sorted(lock_folder(home).glob(f"*{LOCK_SUFFIX}")):
        with (
            contextlib.suppress(FileNotFoundError),
            path.open("r+b") as file,
        ):  # Another process has settled the run and removed the file in the meantime.
            made = path.stat().st_mtime
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_new = is_recent(made, STARTS_WITHIN.total_seconds(), STARTS_WITHIN.total_seconds())
                ended = path.exists() and not (path.name.startswith(".") and is_new)
            except BlockingIOError:
                ended = False
            yield path, made, ended


def find_dead_runs(home: Home, query: "PrefectQuery") -> list[dict[str, Any]]:
    """Return the flow runs that have no final state although their process has ended.

    settle_dead_runs() must set a final state for them. The runs are queried by plain HTTP, because importing Prefect
    takes seconds.
    """
    ended = [str(run_id_of(path)) for path, _, has_ended in run_locks(home) if has_ended]
    found = query.post("flow_runs/filter", flow_runs={"id": {"any_": ended}}) if ended else []
    return [run for run in found if run["state"]["type"] not in ("COMPLETED", "FAILED", "CANCELLED")]


def oldest_living_run(home: Home) -> float | None:
    """Return the start time of the oldest running flow run, in seconds since 1970, or None if no run is running."""
    return min((made for _, made, has_ended in run_locks(home) if not has_ended), default=None)


def lock_restored_runs(home: Home) -> int:
    """Create an unlocked lock file for each unfinished run of a restored database, so that the run counts as dead."""
    database = home.prefect / "prefect.db"
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("select id from flow_run where state_type in ('PENDING', 'RUNNING', 'CANCELLING')")
        paths = []
        for (identity,) in rows:
            # Invalid ids are skipped, because a backup may come from an untrusted source.
            with contextlib.suppress(ValueError, AttributeError, TypeError):
                paths.append(lock_file(home, UUID(identity)))
    lock_folder(home).mkdir(parents=True, exist_ok=True)
    for path in paths:
        path.touch()
    return len(paths)
