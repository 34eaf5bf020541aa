"""The MLflow run of each comparison that `rnnlm compare` or `rnnlm probe` makes, with settings, results and files.

A failure of MLflow only causes a warning, because the rnnlm home contains all results.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnlm.config import TrackingConfig
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_addresses import run_address
from rnnlm.tracking.mlflow_runs import as_text
from rnnlm.tracking.mlflow_store import best_effort, experiment_id, reaching_mlflow

PARENT = "mlflow.parentRunId"  # The tag with the id of the parent run, by which MLflow's pages nest runs.
MetricSeries = dict[str, list[tuple[int, float]]]  # The values of a metric as pairs of step and value.


@dataclass(frozen=True, kw_only=True)
class ComparisonRun:
    """The settings, results and files of a comparison, and the name of its MLflow run."""

    name: str
    key: tuple[str, str]  # A tag and its value, which is a digest of everything that the results depend on.
    settings: Mapping[str, Any]
    series: MetricSeries
    figures: Path  # The file with the results. Its modification time is the time of the metrics.
    files: Sequence[Path]
    tags: Mapping[str, str]
    children: Sequence[str] = ()  # The ids of MLflow runs that are nested below this run.
    reuse: bool = True  # Whether to look for an earlier run with the same key.


def log_comparison(home: Home, config: TrackingConfig, comparison: ComparisonRun) -> str | None:
    """Log a comparison to its MLflow run, and return the run's address, or None if MLflow is unavailable.

    The MLflow run is the newest one with the comparison's key, or a new one if there is none or `reuse` is false.
    Nothing is logged to a finished run. Logging may be repeated after the process was killed, because the time stamps
    are those of the results.
    """
    tag, value = comparison.key
    with best_effort(comparison.name), reaching_mlflow(home) as client:
        from mlflow.entities import Metric, Param

        experiment = experiment_id(client, home, config.experiment)
        wanted, newest = f"tags.`{tag}` = '{value}'", ["start_time DESC"]
        found = client.search_runs([experiment], wanted, max_results=1, order_by=newest) if comparison.reuse else []
        tags = {tag: value, **comparison.tags}
        run = found[0] if found else client.create_run(experiment, tags=tags, run_name=comparison.name)
        if run.info.status != "FINISHED":
            measured = round(comparison.figures.stat().st_mtime * 1000)  # The time of the results in milliseconds.
            params = [Param(setting, as_text(value)) for setting, value in comparison.settings.items()]
            metrics = [
                Metric(metric, value, measured, step)
                for metric, line in comparison.series.items()
                for step, value in line
                if math.isfinite(value)
            ]
            client.log_batch(run.info.run_id, params=params, metrics=metrics)
            for path in comparison.files:
                client.log_artifact(run.info.run_id, str(path))
            for child in comparison.children:
                client.set_tag(child, PARENT, run.info.run_id)
            client.set_terminated(run.info.run_id)
        return run_address(home, experiment, run.info.run_id)
    return None
