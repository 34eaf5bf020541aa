"""Score a run on whole splits, beside the baselines."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import EvaluationConfig
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord


@task(task_run_name="evaluate on {dataset.corpus_name}", cache_policy=NO_CACHE)
def evaluate_perplexity(
    dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, force: bool = False
) -> EvaluationRecord:
    return evaluate_run(find_home(), dataset, run, config, force=force)
