"""Tasks of the probe flows: fresh networks of each kind are measured and plotted."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import TrackingConfig, TrainingConfig
from rnnlm.home import find_home
from rnnlm.probes import run_probes
from rnnlm.probes.probe_config import EchoConfig, GradientProbeConfig
from rnnlm.probes.probe_records import EchoComparison, GradientComparison
from rnnlm.records import DatasetRecord
from rnnlm.tracking import probe_runs


@task(task_run_name="compare-gradients-on-{dataset.dataset_id}", cache_policy=NO_CACHE)
def compare_gradients(
    dataset: DatasetRecord, training: TrainingConfig, config: GradientProbeConfig, force: bool = False
) -> GradientComparison:
    """Measure and plot how far back gradients reach in networks of each kind."""
    return run_probes.compare_gradients(find_home(), dataset, training, config, force=force)


@task(task_run_name="compare-echo", cache_policy=NO_CACHE)
def compare_echo(config: EchoConfig, force: bool = False) -> EchoComparison:
    """Measure and plot how long networks of each kind remember a symbol."""
    return run_probes.compare_echo(find_home(), config, force=force)


@task(task_run_name="log-{comparison.picture.stem}", cache_policy=NO_CACHE)
def log_comparison(comparison: GradientComparison | EchoComparison, tracking: TrackingConfig) -> str | None:
    """The MLflow run's address, or None if MLflow is unavailable."""
    return probe_runs.log_comparison(find_home(), comparison, tracking)
