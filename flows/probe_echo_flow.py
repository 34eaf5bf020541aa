"""What tanh and relu networks of each initialisation remember, and for how long, beside each other."""

from prefect import flow

from flows.operations.flow_start import begin
from rnnlm.config import TrackingConfig
from rnnlm.probes.probe_config import EchoConfig
from rnnlm.probes.probe_records import EchoComparison
from rnnlm.reports.probe_page import echo_report
from tasks.compare_echo import compare_echo
from tasks.log_comparison import log_comparison
from tasks.publish_link import publish_link
from tasks.publish_markdown import publish_markdown


@flow(name="probe-echo", flow_run_name="probe echo")
def probe_echo_flow(
    config: EchoConfig = EchoConfig(), tracking: TrackingConfig = TrackingConfig(), force: bool = False
) -> EchoComparison:
    """Figures and picture, kept in the home and shown in MLflow and here."""
    config = begin(config)
    comparison = compare_echo(config, force=force)
    publish_markdown("echo", echo_report(comparison))
    run_url = log_comparison(comparison, tracking)
    if run_url:
        publish_link("mlflow-run", run_url, "The comparison in MLflow")
    return comparison


if __name__ == "__main__":
    probe_echo_flow()
