"""Compare what networks of each kind learn of synthetic tasks, on short rows and on longer ones."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import link_to_mlflow, rnnlm_flow, start_flow_run
from rnnlm.config import TrackingConfig
from rnnlm.lab.probes.probe_config import AbilitiesConfig
from rnnlm.lab.probes.probe_records import AbilityComparison
from rnnlm.reports.probe_page import abilities_page
from tasks.probes import log_probe, probe_abilities


@rnnlm_flow("probe-abilities")
def probe_abilities_flow(config: AbilitiesConfig, force: bool = False) -> AbilityComparison:
    """Store figures and plot in the home; show them in MLflow and on the flow run."""
    config = start_flow_run(config)
    comparison = probe_abilities(config, force=force)
    create_markdown_artifact(
        abilities_page(comparison).markdown(), key="abilities", description="What networks of each kind learn"
    )
    link_to_mlflow(log_probe(comparison, TrackingConfig()))
    return comparison
