"""Tokenize one shard of a corpus."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.sequences.corpus_shards import Shard, ShardMaker
from tasks.operations.task_runners import is_worth_a_retry


@task(
    task_run_name="tokenize shard {shard.number}",
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=10,
    retry_condition_fn=is_worth_a_retry,
)
def tokenize_shard(make: ShardMaker, shard: Shard) -> int:
    return make(shard)
