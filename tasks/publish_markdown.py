"""A markdown report on the run's page in the Prefect UI."""

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE


@task(task_run_name="publish-{key}", cache_policy=NO_CACHE)
def publish_markdown(key: str, markdown: str) -> None:
    """Attach `markdown` under `key` (lower case and dashes)."""
    create_markdown_artifact(markdown=markdown, key=key)
