"""Run the data tests of sql/checks on a dataset, and check its held-out splits for training text."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import SequencesConfig
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_report import check_leakage


@task(task_run_name="check-{dataset.dataset_id}", cache_policy=NO_CACHE)
def check_sequences(dataset: DatasetRecord, config: SequencesConfig) -> list[str]:
    """Names of the passed checks. DatasetError if one returned a row, or if too much text leaked."""
    passed = check_dataset(dataset)
    leaked_share = check_leakage(find_home(), dataset, config.maximum_leakage)
    return [*passed, f"leakage at most {leaked_share:.1%}"]
