"""Tokenize a corpus into stored sequences, describe them and check them before training."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.registry import data_gates
from rnnlm.registry.data_gates import GatesRecord
from rnnlm.reports.dataset_page import description_page
from rnnlm.sequences import dataset_writer
from rnnlm.sequences.corpus_shards import Shard, ShardMaker
from rnnlm.sequences.dataset_report import describe_dataset
from rnnlm.storage.home import find_home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, TokenizerRecord
from tasks.operations.task_runners import engine_of, piece_task


@piece_task("tokenize shard {shard.number}")
def tokenize_shard(make: ShardMaker, shard: Shard) -> int:
    """Tokenize one shard of a corpus."""
    return make(shard)


@task(task_run_name="store {corpus.name} as sequences", cache_policy=NO_CACHE)
def tokenize_corpus(
    corpus: CorpusRecord,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    force: bool = False,
) -> DatasetRecord:
    """Tokenize a corpus into one DuckDB file of shifted sequences."""
    engine = engine_of(tokenize_shard, config)
    return dataset_writer.store_sequences(find_home(), corpus, tokenizer, config, force=force, open_engine=engine)


@task(task_run_name="describe {dataset.corpus_name}", cache_policy=NO_CACHE)
def describe_sequences(dataset: DatasetRecord, force: bool = False) -> str:
    """Describe a dataset in a Markdown report with plots."""
    description, pictures = describe_dataset(find_home(), dataset, force=force)
    return description_page(description, pictures).markdown()


@task(task_run_name="check {dataset.corpus_name}", cache_policy=NO_CACHE)
def check_data(config: PipelineConfig, dataset: DatasetRecord) -> GatesRecord:
    """Check a dataset before training: size, unknown words, duplicates, leakage and drift from the champion's text.

    Raise GatesError, which includes the measurements, if a gate stops the run.
    """
    gates = data_gates.check_gates(find_home(), config, dataset)
    gates.raise_if_stopped()
    return gates
