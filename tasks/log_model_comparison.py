"""Log a comparison of models as an MLflow run, with the models' training runs nested below it."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.comparison.model_comparison import ModelComparison
from rnnlm.config import TrackingConfig
from rnnlm.home import find_home
from rnnlm.tracking import comparison_runs


@task(task_run_name="log to MLflow", cache_policy=NO_CACHE)
def log_model_comparison(comparison: ModelComparison, tracking: TrackingConfig) -> str | None:
    """The MLflow run's address, or None if MLflow is unavailable."""
    return comparison_runs.log_model_comparison(find_home(), comparison, tracking)
