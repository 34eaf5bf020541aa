"""Delete old flow runs from the rnnlm home's own Prefect database if no Prefect server is running.

A running server deletes them itself, by the settings in prefect_environment.py, but a temporary server does not.
"""

import asyncio
import os

from flows.operations.prefect_environment import away_from_project_files
from rnnlm.storage.home import Home


def remove_old_flow_runs(home: Home, days: int) -> None:
    """Remove old flow runs with their logs and artifacts, unless a server is configured or there is no database."""
    if "PREFECT_API_URL" in os.environ or not (home.prefect / "prefect.db").exists():
        return
    hours = max(24 * days, 2)  # The period is at least two hours, because Prefect requires more than one hour.
    os.environ["PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD"] = str(hours * 3600)
    from prefect.context import refresh_global_settings_context

    with away_from_project_files():
        refresh_global_settings_context()
    asyncio.run(vacuum())


async def vacuum() -> None:
    from prefect.server.database import provide_database_interface
    from prefect.server.services.db_vacuum import (
        vacuum_old_events,
        vacuum_old_flow_runs,
        vacuum_orphaned_artifacts,
        vacuum_orphaned_logs,
        vacuum_stale_artifact_collections,
    )

    database = provide_database_interface()
    for remove in (
        vacuum_old_flow_runs,
        # The second call deletes the subflows of deleted runs, which now count as runs without a parent.
        vacuum_old_flow_runs,
        vacuum_old_events,
        vacuum_orphaned_logs,
        vacuum_orphaned_artifacts,
        vacuum_stale_artifact_collections,
    ):
        await remove(db=database)
