"""Let one process at a time change a shared registry, across all machines that use the same Prefect server.

The registry's file lock (rnnlm/registry/registry_lock.py) protects only one machine, and MLflow's aliases have no
compare-and-set. If the registry is a server or a database that several machines use, a global concurrency limit of
Prefect is also held. Prefect renews the lease of a running process, and takes back the lease of a killed process.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rnnlm.registry.registry_lock import is_shared
from rnnlm.storage.home import Home

LIMIT = "rnnlm-registry"  # The name of the concurrency limit in the Prefect UI.
LEASE_SECONDS = 60.0  # The duration of a lease in seconds. It is the shortest that Prefect allows.


@contextmanager
def registry_turn(home: Home) -> Iterator[None]:
    """Hold the lock of a shared registry inside the `with` block. Interrupt the block if the lease is lost."""
    if not is_shared(home):
        yield
        return
    from prefect.client.orchestration import get_client
    from prefect.concurrency.sync import concurrency
    from prefect.exceptions import ObjectAlreadyExists

    # Another process may have created the limit.
    with get_client(sync_client=True) as client, suppress(ObjectAlreadyExists):
        client.upsert_global_concurrency_limit_by_name(LIMIT, 1)
    with concurrency(LIMIT, lease_duration=LEASE_SECONDS, strict=True):
        yield
