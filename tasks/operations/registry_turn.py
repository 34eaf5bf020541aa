"""One change of a shared registry at a time, over all machines that share Prefect's server.

The registry's file lock (rnnlm/registry/registry_lock.py) holds on one machine. MLflow's aliases have no
compare-and-set, so where the registry is a server or a database of several machines, one of Prefect's global
concurrency limits is held as well. Prefect renews the lease of a living process and takes back that of a killed one.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rnnlm.registry.registry_lock import is_shared
from rnnlm.storage.home import Home

LIMIT = "rnnlm-registry"  # in the Prefect UI: Concurrency
LEASE_SECONDS = 60.0  # the shortest that Prefect allows


@contextmanager
def registry_turn(home: Home) -> Iterator[None]:
    """Hold the registry for the block, if it is shared. The block is interrupted if the lease cannot be renewed."""
    if not is_shared(home):
        yield
        return
    from prefect.client.orchestration import get_client
    from prefect.concurrency.sync import concurrency
    from prefect.exceptions import ObjectAlreadyExists

    with get_client(sync_client=True) as client, suppress(ObjectAlreadyExists):  # another process may be making it
        client.upsert_global_concurrency_limit_by_name(LIMIT, 1)
    with concurrency(LIMIT, lease_duration=LEASE_SECONDS, strict=True):
        yield
