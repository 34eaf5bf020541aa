"""Corpus → tokenizer → sequences: everything before training."""

from prefect import flow

from flows.operations.flow_start import begin
from rnnlm.config import PipelineConfig
from rnnlm.records import PreparedRecord
from rnnlm.reports.pipeline_page import corpus_report, sequences_report, tokenizer_report
from tasks.check_leakage import check_leakage
from tasks.describe_sequences import describe_sequences
from tasks.download_corpus import download_corpus
from tasks.publish_markdown import publish_markdown
from tasks.store_sequences import store_sequences
from tasks.train_tokenizer import train_tokenizer


@flow(name="prepare", flow_run_name="prepare {config.corpus.public_source}")
def prepare_flow(config: PipelineConfig = PipelineConfig()) -> PreparedRecord:
    """A checked dataset: one DuckDB file of shifted sequences with its tokenizer beside it."""
    config = begin(config)
    corpus = download_corpus(config.corpus, force="corpus" in config.force)
    publish_markdown("corpus", corpus_report(corpus))

    tokenizer = train_tokenizer(corpus, config.tokenizer, force="tokenizer" in config.force)
    publish_markdown("tokenizer", tokenizer_report(tokenizer))

    dataset = store_sequences(corpus, tokenizer, config.sequences, force="sequences" in config.force)
    leaked_share = check_leakage(dataset, config.sequences)
    publish_markdown("sequences", sequences_report(dataset, leaked_share))
    publish_markdown("description", describe_sequences(dataset, force="sequences" in config.force))
    return PreparedRecord(corpus=corpus, tokenizer=tokenizer, dataset=dataset)


if __name__ == "__main__":
    prepare_flow()
