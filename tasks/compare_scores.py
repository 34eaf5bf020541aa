"""Compare scores with those of the model's validation text."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.scoring.bulk_scoring import ScoringRecord
from rnnlm.scoring.drift import Drift, measure_drift
from rnnlm.scoring.scoring_config import ScoringConfig


@task(task_run_name="compare scores", cache_policy=NO_CACHE)
def compare_scores(config: ScoringConfig, scoring: ScoringRecord) -> Drift:
    return measure_drift(find_home(), config, scoring)
