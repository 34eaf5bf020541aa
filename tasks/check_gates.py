"""Check a dataset before training: size, unknown words, duplicates, leakage and drift from the champion's text."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import PipelineConfig
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord
from rnnlm.registry import data_gates
from rnnlm.registry.data_gates import GatesRecord


@task(task_run_name="check {dataset.corpus_name}", cache_policy=NO_CACHE)
def check_gates(config: PipelineConfig, dataset: DatasetRecord) -> GatesRecord:
    return data_gates.check_gates(find_home(), config, dataset)
