"""The data tests of sql/checks, run on a dataset."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.records import DatasetRecord
from rnnlm.sequences.checks import check_dataset


@task(task_run_name="check-{dataset.dataset_id}", cache_policy=NO_CACHE)
def check_sequences(dataset: DatasetRecord) -> list[str]:
    """Names of the checks passed; DatasetError where one returned a row."""
    return check_dataset(dataset)
