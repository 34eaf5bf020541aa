"""Measure and plot what networks of each kind learn of synthetic tasks."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.probes import run_probes
from rnnlm.probes.probe_config import AbilitiesConfig
from rnnlm.probes.probe_records import AbilityComparison
from tasks.measure_ability import measure_ability
from tasks.operations.task_runners import engine_of


@task(task_run_name="compare abilities", cache_policy=NO_CACHE)
def compare_abilities(config: AbilitiesConfig, force: bool = False) -> AbilityComparison:
    engine = engine_of(measure_ability, config)
    return run_probes.compare_abilities(find_home(), config, force=force, open_engine=engine)
