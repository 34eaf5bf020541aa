"""Measure and plot a run's accuracy by position in the row."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import ProbesConfig
from rnnlm.home import find_home
from rnnlm.probes.run_probes import measure_positions
from rnnlm.records import DatasetRecord, PositionsRecord, RunRecord


@task(task_run_name="probe positions on {dataset.corpus_name}", cache_policy=NO_CACHE)
def probe_positions(
    dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, force: bool = False
) -> PositionsRecord:
    return measure_positions(find_home(), dataset, run, config, force=force)
