"""Sample from the champion of the configured model."""

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import start_flow_run
from rnnlm.config import PipelineConfig
from rnnlm.records import SamplesRecord
from rnnlm.reports.pipeline_page import samples_report
from tasks.sample_champion import sample_champion


@flow(name="sample", flow_run_name="sample from {config.corpus.public_source}")
def sample_flow(config: PipelineConfig = PipelineConfig()) -> SamplesRecord:
    """Continue the configured prompts with the registered champion."""
    config = start_flow_run(config)
    samples = sample_champion(config.corpus, config.registry, config.generation)
    create_markdown_artifact(samples_report(samples), key="samples")
    return samples
