"""Compare what networks of each kind learn of synthetic tasks, on short rows and on longer ones."""

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.operations.flow_start import plain_failures, start_flow_run
from flows.operations.run_labels import flow_run_label
from rnnlm.config import TrackingConfig
from rnnlm.lab.probes.probe_config import AbilitiesConfig
from rnnlm.lab.probes.probe_records import AbilityComparison
from rnnlm.reports.probe_page import abilities_page
from tasks.probes import log_probe, probe_abilities


@flow(name="probe-abilities", flow_run_name=flow_run_label)
@plain_failures
def probe_abilities_flow(config: AbilitiesConfig, force: bool = False) -> AbilityComparison:
    """Store figures and plot in the home; show them in MLflow and on the flow run."""
    config = start_flow_run(config)
    comparison = probe_abilities(config, force=force)
    create_markdown_artifact(
        abilities_page(comparison).markdown(), key="abilities", description="What networks of each kind learn"
    )
    run_url = log_probe(comparison, TrackingConfig())
    if run_url:
        create_link_artifact(
            run_url, "The comparison in MLflow", key="mlflow-run", description="Figures and plot in MLflow"
        )
    return comparison
