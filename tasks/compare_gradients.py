"""Measure and plot how far back gradients reach in networks of each kind."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import TrainingConfig
from rnnlm.home import find_home
from rnnlm.probes import run_probes
from rnnlm.probes.probe_config import GradientProbeConfig
from rnnlm.probes.probe_records import GradientComparison
from rnnlm.records import DatasetRecord


@task(task_run_name="compare gradients on {dataset.corpus_name}", cache_policy=NO_CACHE)
def compare_gradients(
    dataset: DatasetRecord, training: TrainingConfig, config: GradientProbeConfig, force: bool = False
) -> GradientComparison:
    return run_probes.compare_gradients(find_home(), dataset, training, config, force=force)
