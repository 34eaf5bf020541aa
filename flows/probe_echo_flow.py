"""Compare how long tanh and relu networks with each initialization remember a symbol."""

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.operations.flow_start import plain_failures, start_flow_run
from flows.operations.run_labels import flow_run_label
from rnnlm.config import TrackingConfig
from rnnlm.lab.probes.probe_config import EchoConfig
from rnnlm.lab.probes.probe_records import EchoComparison
from rnnlm.reports.probe_page import echo_page
from tasks.probes import log_probe, probe_echo


@flow(name="probe-echo", flow_run_name=flow_run_label)
@plain_failures
def probe_echo_flow(config: EchoConfig, force: bool = False) -> EchoComparison:
    """Store figures and plot in the home; show them in MLflow and on the flow run."""
    config = start_flow_run(config)
    comparison = probe_echo(config, force=force)
    create_markdown_artifact(
        echo_page(comparison).markdown(), key="echo", description="What networks of each kind remember"
    )
    run_url = log_probe(comparison, TrackingConfig())
    if run_url:
        create_link_artifact(
            run_url, "The comparison in MLflow", key="mlflow-run", description="Figures and plot in MLflow"
        )
    return comparison
