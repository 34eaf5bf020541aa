"""Log a comparison that `rnnlm probe` has made as an MLflow run."""

from rnnlm.config import TrackingConfig
from rnnlm.extensions.probes.probe_records import ProbeComparison
from rnnlm.storage.home import Home
from rnnlm.tracking.comparison_runs import ComparisonRun, log_comparison

PROBE_KEY = "rnnlm.probe_key"


def log_probe_comparison(home: Home, comparison: ProbeComparison, config: TrackingConfig) -> str | None:
    """Log a comparison to MLflow. Return the MLflow run's URL, or None if MLflow is unavailable.

    A new comparison gets a new MLflow run. A stored comparison usually has one. If MLflow was unavailable or the
    process was killed, the run is created or completed here.
    """
    run = ComparisonRun(
        name=f"probe {comparison.picture.stem}",
        key=(PROBE_KEY, comparison.key),
        settings=comparison.settings,
        series=comparison.series,
        figures=comparison.figures,
        files=comparison.files,
        tags={},
        reuse=comparison.skipped,
    )
    return log_comparison(home, config, run)
