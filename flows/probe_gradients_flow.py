"""Compare how far back gradients reach in tanh and relu networks with each initialization."""

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.operations.flow_start import plain_failures, start_flow_run
from flows.operations.run_labels import flow_run_label
from flows.pipeline_flow import prepare
from rnnlm.config import PipelineConfig
from rnnlm.lab.probes.probe_config import GradientProbeConfig
from rnnlm.lab.probes.probe_records import GradientComparison
from rnnlm.reports.probe_page import gradients_page
from tasks.probes import log_probe, probe_gradients


@flow(name="probe-gradients", flow_run_name=flow_run_label)
@plain_failures
def probe_gradients_flow(
    config: GradientProbeConfig, pipeline: PipelineConfig, force: bool = False
) -> GradientComparison:
    """Store figures and plot in the home; show them in MLflow and on the flow run."""
    config = start_flow_run(config)
    dataset = prepare(pipeline).dataset
    comparison = probe_gradients(dataset, pipeline.training, config, force=force)
    create_markdown_artifact(
        gradients_page(comparison).markdown(), key="gradients", description="Gradients of networks of each kind"
    )
    run_url = log_probe(comparison, pipeline.tracking)
    if run_url:
        create_link_artifact(
            run_url, "The comparison in MLflow", key="mlflow-run", description="Figures and plot in MLflow"
        )
    return comparison
