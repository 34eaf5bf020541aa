"""Remove items from the rnnlm home that its retention rules do not keep."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.extensions.upkeep.prune import PruneRecord, prune_home
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.storage.home import find_home
from tasks.operations.registry_turn import registry_turn


@task(task_run_name="prune the home", cache_policy=NO_CACHE)
def prune(config: RetentionConfig, in_use_since: float | None) -> PruneRecord:
    """Remove items from the rnnlm home that its retention rules do not keep, and report them.

    `in_use_since` is the start time of the oldest running flow run, in seconds since 1970.
    """
    home = find_home()
    with registry_turn(home):
        return prune_home(home, config, in_use_since)
