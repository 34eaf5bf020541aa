"""Measure and plot what networks of each kind learn of synthetic tasks."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.probes import run_probes
from rnnlm.probes.probe_config import AbilitiesConfig
from rnnlm.probes.probe_records import AbilityComparison


@task(task_run_name="compare abilities", cache_policy=NO_CACHE)
def compare_abilities(config: AbilitiesConfig, force: bool = False) -> AbilityComparison:
    return run_probes.compare_abilities(find_home(), config, force=force)
