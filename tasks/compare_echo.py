"""Measure and plot how long networks of each kind remember a symbol."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.probes import run_probes
from rnnlm.probes.probe_config import EchoConfig
from rnnlm.probes.probe_records import EchoComparison


@task(task_run_name="compare echo", cache_policy=NO_CACHE)
def compare_echo(config: EchoConfig, force: bool = False) -> EchoComparison:
    return run_probes.compare_echo(find_home(), config, force=force)
