"""Store the scores of a run's validation text beside its model, for later comparisons with scored texts."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.scoring import reference_scores


@task(task_run_name="keep reference scores of {dataset.corpus_name}", cache_policy=NO_CACHE)
def keep_references(dataset: DatasetRecord, run: RunRecord, force: bool = False) -> list[Path]:
    return reference_scores.keep_references(find_home(), dataset, run, force=force)
