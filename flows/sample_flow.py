"""Samples from a run, or from the champion of the configured model."""

from prefect import flow

from rnnlm import reports
from rnnlm.config import PipelineConfig
from rnnlm.records import DatasetRecord, RunRecord, SamplesRecord
from tasks.generate_samples import generate_samples
from tasks.publish_markdown import publish_markdown
from tasks.sample_champion import sample_champion


@flow(name="sample", flow_run_name="sample from {config.corpus.source}")
def sample_flow(
    config: PipelineConfig = PipelineConfig(),
    dataset: DatasetRecord | None = None,
    run: RunRecord | None = None,
) -> SamplesRecord:
    """Continuations of the configured prompts. Without a run the registered champion writes them."""
    if dataset and run:
        samples = generate_samples(dataset, run, config.generation, force="samples" in config.force)
    else:
        samples = sample_champion(config.corpus, config.registry, config.generation)
    publish_markdown("samples", reports.samples_report(samples))
    return samples


if __name__ == "__main__":
    sample_flow()
