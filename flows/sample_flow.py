"""Samples from the champion of the configured model."""

from prefect import flow

from flows.operations.flow_start import begin
from rnnlm.config import PipelineConfig
from rnnlm.records import SamplesRecord
from rnnlm.reports.pipeline_page import samples_report
from tasks.publish_markdown import publish_markdown
from tasks.sample_champion import sample_champion


@flow(name="sample", flow_run_name="sample from {config.corpus.public_source}")
def sample_flow(config: PipelineConfig = PipelineConfig()) -> SamplesRecord:
    """Continuations of the configured prompts, by the registered champion."""
    config = begin(config)
    samples = sample_champion(config.corpus, config.registry, config.generation)
    publish_markdown("samples", samples_report(samples))
    return samples


if __name__ == "__main__":
    sample_flow()
