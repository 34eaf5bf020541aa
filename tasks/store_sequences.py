"""Tokenize a corpus into one DuckDB file of shifted sequences."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import SequencesConfig
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord, DatasetRecord, TokenizerRecord
from rnnlm.sequences import dataset_writer
from tasks.operations.task_runners import engine_of
from tasks.tokenize_shard import tokenize_shard


@task(task_run_name="store {corpus.name} as sequences", cache_policy=NO_CACHE)
def store_sequences(
    corpus: CorpusRecord,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    force: bool = False,
) -> DatasetRecord:
    engine = engine_of(tokenize_shard, config)
    return dataset_writer.store_sequences(find_home(), corpus, tokenizer, config, force=force, open_engine=engine)
