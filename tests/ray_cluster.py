"""A Ray cluster of two nodes, both on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def two_nodes() -> Iterator[str]:
    """The address of a cluster of two nodes with one CPU each."""
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
