"""The MLflow run of each comparison of `rnnlm probe`: settings, figures as metrics and JSON, plot.

Best effort, like all tracking: a failure of MLflow is a warning, and home.probes has everything anyway.
"""

import math
from typing import TYPE_CHECKING

from rnnlm.config import TrackingConfig
from rnnlm.home import Home
from rnnlm.lab.probes.probe_records import ProbeComparison
from rnnlm.tracking.mlflow_runs import as_text, run_address
from rnnlm.tracking.mlflow_store import best_effort, experiment_id, reaching_mlflow
from rnnlm.tracking.tracker import METRICS_PER_CALL

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PROBE_KEY = "rnnlm.probe_key"  # tag: digest of everything the figures depend on


def log_comparison(home: Home, comparison: ProbeComparison, config: TrackingConfig) -> str | None:
    """The address of the comparison's MLflow run; None if MLflow is unavailable.

    A new comparison gets a new run. A skipped one has its run already, unless MLflow was unavailable or the process
    was killed: then it is made, or finished, here.
    """
    with best_effort(comparison.picture.name), reaching_mlflow(home) as client:
        experiment = experiment_id(client, home, config.experiment)
        run = newest_run(client, experiment, PROBE_KEY, comparison.key) if comparison.skipped else None
        if run is None:
            name = f"probe {comparison.picture.stem}"
            run = client.create_run(experiment, tags={PROBE_KEY: comparison.key}, run_name=name)
        if run.info.status != "FINISHED":
            send(client, run.info.run_id, comparison)
            client.set_terminated(run.info.run_id)
        return run_address(home, experiment, run.info.run_id)
    return None


def newest_run(client: "MlflowClient", experiment: str, tag: str, key: str) -> "Run | None":
    """The experiment's newest run whose tag has this value."""
    found = client.search_runs([experiment], f"tags.`{tag}` = '{key}'", max_results=1, order_by=["start_time DESC"])
    return found[0] if found else None


def send(client: "MlflowClient", mlflow_run_id: str, comparison: ProbeComparison) -> None:
    """Idempotent, as the time stamps are those of the figures: a killed send may be repeated."""
    from mlflow.entities import Metric, Param

    params = [Param(name, as_text(value)) for name, value in comparison.settings.items()]
    client.log_batch(mlflow_run_id, params=params)
    measured = round(comparison.figures.stat().st_mtime * 1000)  # milliseconds
    metrics = [
        Metric(name, value, measured, distance)
        for name, line in comparison.series.items()
        for distance, value in line
        if math.isfinite(value)
    ]
    for first in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(mlflow_run_id, metrics=metrics[first : first + METRICS_PER_CALL])
    for path in comparison.files:
        client.log_artifact(mlflow_run_id, str(path))
