"""Tokenize a corpus into one DuckDB file of shifted sequences."""

from contextlib import AbstractContextManager

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import SequencesConfig
from rnnlm.engines import Engine, in_this_process
from rnnlm.home import find_home
from rnnlm.records import CorpusRecord, DatasetRecord, TokenizerRecord
from rnnlm.sequences import dataset_writer
from tasks.operations.task_runners import local_processes, ray_cluster
from tasks.tokenize_shard import tokenize_shard


@task(task_run_name="store {corpus.name} as sequences", cache_policy=NO_CACHE)
def store_sequences(
    corpus: CorpusRecord,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    force: bool = False,
) -> DatasetRecord:
    def open_engine(worth: int) -> AbstractContextManager[Engine]:
        if worth == 1:
            return in_this_process(worth)
        if config.engine == "ray":
            return ray_cluster(tokenize_shard, config.ray_address)
        return local_processes(tokenize_shard, config.processes, worth)

    return dataset_writer.store_sequences(find_home(), corpus, tokenizer, config, force=force, open_engine=open_engine)
