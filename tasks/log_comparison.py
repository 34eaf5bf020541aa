"""Log a comparison of networks as an MLflow run; if MLflow is unavailable, the next call logs it."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import TrackingConfig
from rnnlm.home import find_home
from rnnlm.probes.probe_records import AbilityComparison, EchoComparison, GradientComparison
from rnnlm.tracking import probe_runs


@task(task_run_name="log to MLflow", cache_policy=NO_CACHE)
def log_comparison(
    comparison: GradientComparison | EchoComparison | AbilityComparison, tracking: TrackingConfig
) -> str | None:
    """The MLflow run's address, or None if MLflow is unavailable."""
    return probe_runs.log_comparison(find_home(), comparison, tracking)
