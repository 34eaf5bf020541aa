"""Refuse a dataset whose held-out splits stand in its training text."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import SequencesConfig
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord
from rnnlm.sequences import dataset_report


@task(task_run_name="check leakage of {dataset.corpus_name}", cache_policy=NO_CACHE)
def check_leakage(dataset: DatasetRecord, config: SequencesConfig) -> float:
    """The largest share of a held-out split found in training text; DatasetError if it exceeds the maximum."""
    return dataset_report.check_leakage(find_home(), dataset, config.maximum_leakage)
