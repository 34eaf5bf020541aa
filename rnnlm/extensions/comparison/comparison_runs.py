"""The MLflow run of each comparison that `rnnlm compare` or `rnnlm probe` makes: settings, figures and files.

Best effort, like all tracking: a failure of MLflow is a warning, and the home has everything anyway.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from rnnlm.config import TrackingConfig
from rnnlm.extensions.comparison.model_comparison import ModelComparison
from rnnlm.extensions.probes.probe_records import MetricSeries, ProbeComparison
from rnnlm.home import Home
from rnnlm.tracking.mlflow_runs import CORPUS, as_text, run_address
from rnnlm.tracking.mlflow_store import best_effort, experiment_id, reaching_mlflow

# Tags: the digest of everything the figures depend on.
COMPARISON_KEY, PROBE_KEY = "rnnlm.comparison_key", "rnnlm.probe_key"
PARENT = "mlflow.parentRunId"  # tag that MLflow's pages nest runs by


def log_probe_comparison(home: Home, comparison: ProbeComparison, config: TrackingConfig) -> str | None:
    """The address of the MLflow run; None if MLflow is unavailable.

    A new comparison gets a new run. A skipped one has its run already, unless MLflow was unavailable or the process
    was killed: then it is made, or finished, here.
    """
    name = f"probe {comparison.picture.stem}"
    key, series, files = (PROBE_KEY, comparison.key), comparison.series, comparison.files
    return log_comparison(home, config, name, key, comparison, series, files, reuse=comparison.skipped)


def log_model_comparison(home: Home, comparison: ModelComparison, config: TrackingConfig) -> str | None:
    """The address of the MLflow run; None if MLflow is unavailable. One run, however often.

    The runs of the models are nested below it.
    """
    series = {
        f"{name}/{result.model}": [(0, value)]
        for result in comparison.models
        for name, value in (("test_perplexity", result.test_perplexity), ("test_bits_per_byte", result.bits_per_byte))
    }
    name, key = f"compare {comparison.corpus_name}", (COMPARISON_KEY, comparison.key)
    files = sorted(comparison.folder.iterdir())
    children = [run.mlflow_run_id for result in comparison.models for run in result.runs if run.mlflow_run_id]
    return log_comparison(home, config, name, key, comparison, series, files, children)


def log_comparison(
    home: Home,
    config: TrackingConfig,
    name: str,
    key: tuple[str, str],
    comparison: ProbeComparison | ModelComparison,
    series: MetricSeries,
    files: Sequence[Path],
    children: Sequence[str] = (),
    reuse: bool = True,
) -> str | None:
    """Log to the newest MLflow run that has the tag `key`, (name, value), unless it is finished; else to a new run.

    Sending is idempotent, as the time stamps are those of the figures: a killed send may be repeated.
    children: MLflow runs to nest below it. reuse: whether to look for an earlier run.
    """
    with best_effort(comparison.picture.name), reaching_mlflow(home) as client:
        from mlflow.entities import Metric, Param

        experiment = experiment_id(client, home, config.experiment)
        wanted = f"tags.`{key[0]}` = '{key[1]}'"
        found = client.search_runs([experiment], wanted, max_results=1, order_by=["start_time DESC"]) if reuse else []
        tags = dict([key]) | ({CORPUS: comparison.corpus_name} if isinstance(comparison, ModelComparison) else {})
        run = found[0] if found else client.create_run(experiment, tags=tags, run_name=name)
        if run.info.status != "FINISHED":
            measured = round(comparison.figures.stat().st_mtime * 1000)  # milliseconds
            params = [Param(setting, as_text(value)) for setting, value in comparison.settings.items()]
            metrics = [
                Metric(metric, value, measured, step)
                for metric, line in series.items()
                for step, value in line
                if math.isfinite(value)
            ]
            client.log_batch(run.info.run_id, params=params, metrics=metrics)
            for path in files:
                client.log_artifact(run.info.run_id, str(path))
            for child in children:
                client.set_tag(child, PARENT, run.info.run_id)
            client.set_terminated(run.info.run_id)
        return run_address(home, experiment, run.info.run_id)
    return None
