"""Log a comparison that `rnnlm compare` has made as an MLflow run."""

from rnnlm.config import TrackingConfig
from rnnlm.extensions.comparison.model_comparison import ModelComparison
from rnnlm.storage.home import Home
from rnnlm.tracking.comparison_runs import ComparisonRun, MetricSeries, log_comparison
from rnnlm.tracking.mlflow_runs import CORPUS

COMPARISON_KEY = "rnnlm.comparison_key"


def log_model_comparison(home: Home, comparison: ModelComparison, config: TrackingConfig) -> str | None:
    """Log the comparison to MLflow. Return the run's URL, or None if MLflow is unavailable.

    Logging a comparison again updates the same MLflow run. The models' runs are nested below it.
    """
    series: MetricSeries = {
        f"{name}/{result.model}": [(0, value)]
        for result in comparison.models
        for name, value in (("test_perplexity", result.test_perplexity), ("test_bits_per_byte", result.bits_per_byte))
    }
    run = ComparisonRun(
        name=f"compare {comparison.corpus_name}",
        key=(COMPARISON_KEY, comparison.key),
        settings=comparison.settings,
        series=series,
        figures=comparison.figures,
        files=sorted(comparison.folder.iterdir()),
        tags={CORPUS: comparison.corpus_name},
        children=[run.mlflow_run_id for result in comparison.models for run in result.runs if run.mlflow_run_id],
    )
    return log_comparison(home, config, run)
