"""The whole story: text in, registered recurrent language model out. The file to read first."""

from prefect import flow

from flows.operations.flow_start import begin
from flows.prepare_flow import prepare_flow
from flows.train_flow import train_flow
from rnnlm.config import PipelineConfig
from rnnlm.records import PipelineRecord


@flow(name="pipeline", flow_run_name="pipeline of {config.corpus.public_source}")
def pipeline_flow(config: PipelineConfig = PipelineConfig()) -> PipelineRecord:
    """Corpus → tokenizer → sequences → training → perplexity → samples → registry.

    Each stage's output is named by the digest of all it depends on, so a stage whose verified output
    exists skips itself; `config.force` names stages to run again.
    """
    config = begin(config)
    prepared = prepare_flow(config)
    trained = train_flow(config, prepared.dataset)
    return PipelineRecord(**dict(prepared), **dict(trained))


if __name__ == "__main__":
    pipeline_flow()
