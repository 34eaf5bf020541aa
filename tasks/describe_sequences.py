"""Describe a dataset in a markdown report with plots."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.records import DatasetRecord
from rnnlm.reports.dataset_page import description_report
from rnnlm.sequences.dataset_report import describe_dataset


@task(task_run_name="describe {dataset.corpus_name}", cache_policy=NO_CACHE)
def describe_sequences(dataset: DatasetRecord, force: bool = False) -> str:
    description, pictures = describe_dataset(find_home(), dataset, force=force)
    return description_report(description, pictures)
