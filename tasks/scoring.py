"""Score texts with a registered model, and compare the scores with those of the model's validation text."""

from pathlib import Path

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.extensions.scoring import bulk_scoring
from rnnlm.extensions.scoring.bulk_scoring import ScoringRecord, ShardScorer
from rnnlm.extensions.scoring.drift import Drift, measure_drift
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.strange_documents import StrangeDocument, find_strange_documents
from rnnlm.extensions.scoring.text_filter import FilterRecord, filter_texts
from rnnlm.storage.home import find_home
from tasks.operations.task_runners import engine_of, piece_task


@piece_task("score shard {path.stem}")
def score_shard(score: ShardScorer, path: Path, documents: pa.Table) -> int:
    """Score one shard of the texts."""
    return score(path, documents)


@task(task_run_name="score texts", cache_policy=NO_CACHE)
def score_input(config: ScoringConfig) -> ScoringRecord:
    """Score texts with a model, and write the scores to a Parquet file or a DuckDB table."""
    return bulk_scoring.score_texts(find_home(), config, open_engine=engine_of(score_shard, config))


@task(task_run_name="compare scores", cache_policy=NO_CACHE)
def compare_scores(config: ScoringConfig, scoring: ScoringRecord) -> Drift:
    """Compare the scores of texts with the scores of the model's validation text."""
    return measure_drift(find_home(), config, scoring)


@task(task_run_name="list strange documents", cache_policy=NO_CACHE)
def list_strange_documents(config: ScoringConfig, scoring: ScoringRecord) -> tuple[StrangeDocument, ...]:
    """List the strangest of the scored documents if config.top is set."""
    return find_strange_documents(scoring, config.top) if config.top else ()


@task(task_run_name="filter texts", cache_policy=NO_CACHE)
def filter_input(config: FilterConfig, scoring: ScoringRecord) -> FilterRecord:
    """Write the documents of the input to two folders, one for the kept and one for the dropped documents."""
    return filter_texts(find_home(), config, scoring)
