"""Store the loss of every token of the test split as Parquet in the run's folder, and report it as markdown."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import EvaluationConfig
from rnnlm.evaluation.surprise.surprise_measurement import surprise_of_run
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.reports.surprise_page import surprise_report


@task(task_run_name="measure surprise on {dataset.corpus_name}", cache_policy=NO_CACHE)
def measure_surprise(dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, force: bool = False) -> str:
    return surprise_report(surprise_of_run(find_home(), dataset, run, config, force=force))
