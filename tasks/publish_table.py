"""A table on the run's page in the Prefect UI."""

from typing import Any

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE


@task(task_run_name="publish-{key}", cache_policy=NO_CACHE)
def publish_table(key: str, rows: list[dict[str, Any]], description: str) -> None:
    """Attach `rows`, one dictionary a row with the same keys, under `key` (lower case and dashes)."""
    create_table_artifact(table=rows, key=key, description=description)
