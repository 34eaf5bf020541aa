"""Train one network on one synthetic task and measure what it has learned."""

from collections.abc import Callable

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import Home
from rnnlm.probes.probe_config import AbilitiesConfig, SyntheticTaskName
from rnnlm.probes.probe_records import AbilityScore


@task(task_run_name="{network} learns {task_name}, seed {seed}", cache_policy=NO_CACHE)
def measure_ability(
    measure: Callable[..., AbilityScore],
    home: Home,
    config: AbilitiesConfig,
    network: str,
    task_name: SyntheticTaskName,
    seed: int,
    force: bool,
) -> AbilityScore:
    return measure(home, config, network, task_name, seed, force)
