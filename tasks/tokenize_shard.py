"""Tokenize one shard of a corpus."""

from rnnlm.sequences.corpus_shards import Shard, ShardMaker
from tasks.operations.task_runners import piece_task


@piece_task("tokenize shard {shard.number}")
def tokenize_shard(make: ShardMaker, shard: Shard) -> int:
    return make(shard)
