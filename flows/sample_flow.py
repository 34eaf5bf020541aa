"""Sample from the champion of the configured model."""

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import rnnlm_flow, start_flow_run
from rnnlm.config import PipelineConfig
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.registry.model_owner import own_corpus_name
from rnnlm.registry.version_tags import registered_name
from rnnlm.reports.pipeline_page import samples_report
from rnnlm.storage.home import find_home
from rnnlm.storage.result_records import SamplesRecord
from rnnlm.tracking.run_names import page_key
from tasks.registration import sample_champion


@rnnlm_flow("sample")
def sample_flow(config: PipelineConfig = PipelineConfig()) -> SamplesRecord:
    """Continue the configured prompts with the registered champion."""
    config = start_flow_run(config)
    name = own_corpus_name(find_home(), config, corpus_name(config.corpus))
    samples = sample_champion(registered_name(config.registry, name), config.generation)
    create_markdown_artifact(
        samples_report(samples), key=page_key(name, "samples"), description=f"Samples from the champion of {name}"
    )
    return samples
