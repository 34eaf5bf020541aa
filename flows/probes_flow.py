"""Compare kinds of networks by their memory, their accuracy on synthetic tasks, and the reach of their gradients."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import link_to_mlflow, rnnlm_flow, start_flow_run
from flows.pipeline_flow import prepare
from rnnlm.config import PipelineConfig, TrackingConfig
from rnnlm.extensions.probes.probe_config import AbilitiesConfig, EchoConfig, GradientProbeConfig
from rnnlm.extensions.probes.probe_page import abilities_page, echo_page, gradients_page
from rnnlm.extensions.probes.probe_records import AbilityComparison, EchoComparison, GradientComparison
from tasks.probes import log_probe, probe_abilities, probe_echo, probe_gradients


@rnnlm_flow("probe-abilities")
def probe_abilities_flow(config: AbilitiesConfig, force: bool = False) -> AbilityComparison:
    """Compare how well networks of each kind learn synthetic tasks, in short and in longer rows.

    Figures and plot are stored in the rnnlm home, and shown in MLflow and on the flow run's page.
    """
    config = start_flow_run(config)
    comparison = probe_abilities(config, force=force)
    create_markdown_artifact(
        abilities_page(comparison).markdown(), key="abilities", description="What networks of each kind learn"
    )
    link_to_mlflow(log_probe(comparison, TrackingConfig()))
    return comparison


@rnnlm_flow("probe-echo")
def probe_echo_flow(config: EchoConfig, force: bool = False) -> EchoComparison:
    """Compare how long tanh and relu networks with each initialization remember a symbol.

    Figures and plot are stored in the rnnlm home, and shown in MLflow and on the flow run's page.
    """
    config = start_flow_run(config)
    comparison = probe_echo(config, force=force)
    create_markdown_artifact(
        echo_page(comparison).markdown(), key="echo", description="What networks of each kind remember"
    )
    link_to_mlflow(log_probe(comparison, TrackingConfig()))
    return comparison


@rnnlm_flow("probe-gradients")
def probe_gradients_flow(
    config: GradientProbeConfig, pipeline: PipelineConfig, force: bool = False
) -> GradientComparison:
    """Compare how far back gradients reach in tanh and relu networks with each initialization.

    Figures and plot are stored in the rnnlm home, and shown in MLflow and on the flow run's page.
    """
    config = start_flow_run(config)
    dataset = prepare(pipeline).dataset
    comparison = probe_gradients(dataset, pipeline.training, config, force=force)
    create_markdown_artifact(
        gradients_page(comparison).markdown(), key="gradients", description="Gradients of networks of each kind"
    )
    link_to_mlflow(log_probe(comparison, pipeline.tracking))
    return comparison
