"""The MLflow run of each comparison that `rnnlm compare` or `rnnlm probe` makes: settings, figures and files.

Best effort, like all tracking: a failure of MLflow is a warning, and the home has everything anyway.
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

PARENT = "mlflow.parentRunId"  # tag that MLflow's pages nest runs by
MetricSeries = dict[str, list[tuple[int, float]]]  # metric name → (step, value)


@dataclass(frozen=True, kw_only=True)
class ComparisonRun:
    """The settings, figures and files of a comparison, and the name of its MLflow run."""

    name: str
    key: tuple[str, str]  # tag and its value: the digest of everything that the figures depend on
    settings: Mapping[str, Any]
    series: MetricSeries
    figures: Path  # file of the figures, whose modification time is that of the metrics
    files: Sequence[Path]
    tags: Mapping[str, str]
    children: Sequence[str] = ()  # ids of MLflow runs to nest below it
    reuse: bool = True  # look for an earlier run of the same key


def log_comparison(home: Home, config: TrackingConfig, comparison: ComparisonRun) -> str | None:
    """Log to the newest MLflow run with the key, unless it is finished; else to a new run. Returns its address.

    Sending is idempotent, as the time stamps are those of the figures: a killed send may be repeated. None if MLflow
    is unavailable.
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
            measured = round(comparison.figures.stat().st_mtime * 1000)  # milliseconds
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
