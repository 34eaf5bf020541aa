"""A link on the run's page in the Prefect UI."""

from prefect import task
from prefect.artifacts import create_link_artifact
from prefect.cache_policies import NO_CACHE


@task(task_run_name="publish-{key}", cache_policy=NO_CACHE)
def publish_link(key: str, url: str, text: str) -> None:
    """Attach a link to `url` under `key` (lower case and dashes)."""
    create_link_artifact(link=url, link_text=text, key=key, description=text)
