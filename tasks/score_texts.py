"""Texts → their scores under a model, in a Parquet file or a DuckDB table."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.scoring import running
from rnnlm.scoring.config import ScoringConfig
from rnnlm.scoring.running import ScoringRecord


@task(task_run_name="score-{config.input}", cache_policy=NO_CACHE)
def score_texts(config: ScoringConfig) -> ScoringRecord:
    return running.score_texts(find_home(), config)
