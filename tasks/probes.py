"""Measure the memory and the accuracy of networks of each kind, and the reach of their gradients."""

from collections.abc import Callable

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import TrackingConfig, TrainingConfig
from rnnlm.extensions.probes import kind_probes
from rnnlm.extensions.probes.probe_config import AbilitiesConfig, EchoConfig, GradientProbeConfig, SyntheticTaskName
from rnnlm.extensions.probes.probe_records import AbilityComparison, AbilityScore, EchoComparison, GradientComparison
from rnnlm.extensions.probes.probe_tracking import log_probe_comparison
from rnnlm.storage.home import Home, find_home
from rnnlm.storage.records import DatasetRecord
from tasks.operations.task_runners import engine_of


@task(task_run_name="{network} learns {task_name}, seed {seed}", cache_policy=NO_CACHE)
def probe_ability(
    measure: Callable[..., AbilityScore],
    home: Home,
    config: AbilitiesConfig,
    network: str,
    task_name: SyntheticTaskName,
    seed: int,
    force: bool,
) -> AbilityScore:
    """Train one network on one synthetic task, and measure how well it has learned the task."""
    return measure(home, config, network, task_name, seed, force)


@task(task_run_name="compare abilities", cache_policy=NO_CACHE)
def probe_abilities(config: AbilitiesConfig, force: bool = False) -> AbilityComparison:
    """Measure and plot how well networks of each kind learn synthetic tasks."""
    engine = engine_of(probe_ability, config)
    return kind_probes.compare_abilities(find_home(), config, force=force, open_engine=engine)


@task(task_run_name="compare echo", cache_policy=NO_CACHE)
def probe_echo(config: EchoConfig, force: bool = False) -> EchoComparison:
    """Measure and plot how long networks of each kind remember a symbol."""
    return kind_probes.compare_echo(find_home(), config, force=force)


@task(task_run_name="compare gradients on {dataset.corpus_name}", cache_policy=NO_CACHE)
def probe_gradients(
    dataset: DatasetRecord, training: TrainingConfig, config: GradientProbeConfig, force: bool = False
) -> GradientComparison:
    """Measure and plot how far back gradients reach in networks of each kind."""
    return kind_probes.compare_gradients(find_home(), dataset, training, config, force=force)


@task(task_run_name="log to MLflow", cache_policy=NO_CACHE)
def log_probe(
    comparison: GradientComparison | EchoComparison | AbilityComparison, tracking: TrackingConfig
) -> str | None:
    """Log a comparison of networks as an MLflow run. If MLflow is unavailable, the next call logs it.

    Return the URL of the MLflow run, or None if MLflow is unavailable.
    """
    return log_probe_comparison(find_home(), comparison, tracking)
