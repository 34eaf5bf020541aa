"""Text → how far back gradients reach in tanh and relu networks of each initialisation, beside each other."""

from prefect import flow

from flows.operations.flow_start import begin
from flows.prepare_flow import prepare_flow
from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.probes.probe_config import GradientProbeConfig
from rnnlm.probes.probe_records import GradientComparison
from rnnlm.reports.probe_page import gradient_comparison_report
from tasks.compare_gradients import compare_gradients
from tasks.log_comparison import log_comparison
from tasks.publish_link import publish_link
from tasks.publish_markdown import publish_markdown

RUNNING_TEXT = PipelineConfig(sequences=SequencesConfig(mode="stream"))  # sentences are too short to look far back in


@flow(name="probe-gradients", flow_run_name="probe gradients on {pipeline.corpus.public_source}")
def probe_gradients_flow(
    config: GradientProbeConfig = GradientProbeConfig(), pipeline: PipelineConfig = RUNNING_TEXT, force: bool = False
) -> GradientComparison:
    """Figures and picture, kept in the home and shown in MLflow and here."""
    config = begin(config)
    dataset = prepare_flow(pipeline).dataset
    comparison = compare_gradients(dataset, pipeline.training, config, force=force)
    publish_markdown("gradients", gradient_comparison_report(comparison))
    run_url = log_comparison(comparison, pipeline.tracking)
    if run_url:
        publish_link("mlflow-run", run_url, "The comparison in MLflow")
    return comparison


if __name__ == "__main__":
    probe_gradients_flow()
