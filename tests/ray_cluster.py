"""Start a Ray cluster of two nodes, both on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def two_nodes() -> Iterator[str]:
    """Yield the address of a cluster of two nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(ROOT))
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
        cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        cluster.add_node(**node)
        cluster.wait_for_nodes()
        yield cluster.address
        cluster.shutdown()


def workers_that_run(name: str) -> list[psutil.Process]:
    """Return the processes of this test's cluster that run the function or class `name`."""
    return [process for process in psutil.Process().children(recursive=True) if name in program_name(process)]


def program_name(process: psutil.Process) -> str:
    """Return the name of a process, or "" if the process has ended."""
    with suppress(psutil.Error):
        return "".join(process.cmdline()[:1])
    return ""
