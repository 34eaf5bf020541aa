"""Remove from the home what its retention does not keep."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.upkeep import prune
from rnnlm.upkeep.prune import PruneRecord
from rnnlm.upkeep.retention_config import RetentionConfig


@task(task_run_name="prune the home", cache_policy=NO_CACHE)
def prune_home(config: RetentionConfig, in_use_since: float | None) -> PruneRecord:
    """in_use_since: when the oldest living flow run started, in seconds since 1970."""
    return prune.prune_home(find_home(), config, in_use_since)
