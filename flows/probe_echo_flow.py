"""Compare how long tanh and relu networks with each initialization remember a symbol."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import link_to_mlflow, rnnlm_flow, start_flow_run
from rnnlm.config import TrackingConfig
from rnnlm.lab.probes.probe_config import EchoConfig
from rnnlm.lab.probes.probe_records import EchoComparison
from rnnlm.reports.probe_page import echo_page
from tasks.probes import log_probe, probe_echo


@rnnlm_flow("probe-echo")
def probe_echo_flow(config: EchoConfig, force: bool = False) -> EchoComparison:
    """Store figures and plot in the home; show them in MLflow and on the flow run."""
    config = start_flow_run(config)
    comparison = probe_echo(config, force=force)
    create_markdown_artifact(
        echo_page(comparison).markdown(), key="echo", description="What networks of each kind remember"
    )
    link_to_mlflow(log_probe(comparison, TrackingConfig()))
    return comparison
