"""Score one shard of the texts."""

from pathlib import Path

import pyarrow as pa

from rnnlm.scoring.bulk_scoring import ShardScorer
from tasks.operations.task_runners import piece_task


@piece_task("score shard {path.stem}")
def score_shard(score: ShardScorer, path: Path, documents: pa.Table) -> int:
    return score(path, documents)
