"""Score texts with a model, into a Parquet file or a DuckDB table."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.scoring import bulk_scoring
from rnnlm.scoring.bulk_scoring import ScoringRecord
from rnnlm.scoring.scoring_config import ScoringConfig
from tasks.operations.task_runners import engine_of
from tasks.score_shard import score_shard


@task(task_run_name="score texts", cache_policy=NO_CACHE)
def score_texts(config: ScoringConfig) -> ScoringRecord:
    return bulk_scoring.score_texts(find_home(), config, open_engine=engine_of(score_shard, config))
