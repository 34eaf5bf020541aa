"""Remove from the home what its retention does not keep, on a schedule."""

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import plain_failures, start_flow_run
from flows.operations.run_labels import flow_run_label
from flows.operations.run_locks import oldest_living_run
from rnnlm.home import find_home
from rnnlm.reports.upkeep_page import prune_report
from rnnlm.upkeep.prune import PruneRecord
from rnnlm.upkeep.retention_config import RetentionConfig
from tasks.upkeep import prune


@flow(name="prune", flow_run_name=flow_run_label)
@plain_failures
def prune_flow(config: RetentionConfig = RetentionConfig()) -> PruneRecord:
    """Remove old versions, runs, datasets, corpora, histories and caches; never what an alias needs."""
    config = start_flow_run(config)
    pruned = prune(config, oldest_living_run(find_home()))
    create_markdown_artifact(prune_report(pruned), key="prune", description="What was removed, and how much")
    return pruned
