"""Score one shard of the texts."""

from pathlib import Path

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.scoring.bulk_scoring import ShardScorer
from tasks.operations.task_runners import is_worth_a_retry


@task(
    task_run_name="score shard {path.stem}",
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=10,
    retry_condition_fn=is_worth_a_retry,
)
def score_shard(score: ShardScorer, path: Path, documents: pa.Table) -> int:
    return score(path, documents)
