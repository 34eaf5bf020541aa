"""A scheduled flow that removes items from the rnnlm home that are not kept by its retention rules."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import rnnlm_flow, start_flow_run
from flows.operations.run_locks import oldest_living_run
from rnnlm.extensions.upkeep.prune import PruneRecord
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.extensions.upkeep.upkeep_page import prune_report
from rnnlm.storage.home import find_home
from tasks.upkeep import prune


@rnnlm_flow("prune")
def prune_flow(config: RetentionConfig = RetentionConfig()) -> PruneRecord:
    """Remove old versions, runs, datasets, corpora, histories and caches, but never anything that an alias needs."""
    config = start_flow_run(config)
    pruned = prune(config, oldest_living_run(find_home()))
    create_markdown_artifact(prune_report(pruned), key="prune", description="What was removed, and how much")
    return pruned
