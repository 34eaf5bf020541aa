"""The MLflow run of a comparison of models: scores as metrics, files as artifacts, training runs nested below it.

Best effort, like all tracking: a failure of MLflow is a warning, and home.comparisons has everything anyway.
"""

from typing import TYPE_CHECKING

from rnnlm.config import TrackingConfig
from rnnlm.home import Home
from rnnlm.lab.comparison.model_comparison import ModelComparison
from rnnlm.tracking.mlflow_runs import as_text, run_address
from rnnlm.tracking.mlflow_store import best_effort, experiment_id, reaching_mlflow
from rnnlm.tracking.probe_runs import newest_run

if TYPE_CHECKING:
    from mlflow import MlflowClient

COMPARISON_KEY = "rnnlm.comparison_key"  # tag: digest of everything the figures depend on
PARENT = "mlflow.parentRunId"  # tag that MLflow's pages nest runs by


def log_model_comparison(home: Home, comparison: ModelComparison, config: TrackingConfig) -> str | None:
    """The address of the comparison's MLflow run; None if MLflow is unavailable. One run, however often."""
    with best_effort("the comparison"), reaching_mlflow(home) as client:
        experiment = experiment_id(client, home, config.experiment)
        run = newest_run(client, experiment, COMPARISON_KEY, comparison.key)
        if run is None:
            tags = {COMPARISON_KEY: comparison.key}
            run = client.create_run(experiment, tags=tags, run_name=f"compare {comparison.corpus_name}")
        if run.info.status != "FINISHED":
            send(client, run.info.run_id, comparison)
            client.set_terminated(run.info.run_id)
        return run_address(home, experiment, run.info.run_id)
    return None


def send(client: "MlflowClient", mlflow_run_id: str, comparison: ModelComparison) -> None:
    """Idempotent, as the time stamps are those of the figures: a killed send may be repeated."""
    from mlflow.entities import Metric, Param

    params = [Param(name, as_text(value)) for name, value in comparison.settings.items()]
    measured = round(comparison.figures.stat().st_mtime * 1000)  # milliseconds
    scores = {
        f"{name}/{result.model}": value
        for result in comparison.models
        for name, value in (("test_perplexity", result.test_perplexity), ("test_bits_per_byte", result.bits_per_byte))
    }
    metrics = [Metric(name, value, measured, 0) for name, value in scores.items()]
    client.log_batch(mlflow_run_id, params=params, metrics=metrics)
    for path in sorted(comparison.folder.iterdir()):
        client.log_artifact(mlflow_run_id, str(path))
    for result in comparison.models:
        for run in result.runs:
            if run.mlflow_run_id:
                client.set_tag(run.mlflow_run_id, PARENT, mlflow_run_id)
