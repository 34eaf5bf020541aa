"""Compare how far back gradients reach in tanh and relu networks with each initialization."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import link_to_mlflow, rnnlm_flow, start_flow_run
from flows.pipeline_flow import prepare
from rnnlm.config import PipelineConfig
from rnnlm.lab.probes.probe_config import GradientProbeConfig
from rnnlm.lab.probes.probe_records import GradientComparison
from rnnlm.reports.probe_page import gradients_page
from tasks.probes import log_probe, probe_gradients


@rnnlm_flow("probe-gradients")
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
    link_to_mlflow(log_probe(comparison, pipeline.tracking))
    return comparison
