"""Measure and plot how far back the gradient of a run's loss reaches."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import ProbesConfig
from rnnlm.home import find_home
from rnnlm.probes.run_probes import measure_gradient_flow
from rnnlm.records import DatasetRecord, GradientFlowRecord, RunRecord


@task(task_run_name="probe gradients on {dataset.corpus_name}", cache_policy=NO_CACHE)
def probe_gradients(
    dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, force: bool = False
) -> GradientFlowRecord:
    return measure_gradient_flow(find_home(), dataset, run, config, force=force)
