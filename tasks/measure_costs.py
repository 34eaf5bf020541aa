"""Measure what training and generating with each model cost, side by side."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.comparison.model_comparison import stored_costs
from rnnlm.comparison.training_costs import TrainingCosts
from rnnlm.config import ModelKind, PipelineConfig
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord


@task(task_run_name="measure costs", cache_policy=NO_CACHE)
def measure_costs(
    configs: dict[ModelKind, PipelineConfig], dataset: DatasetRecord, seconds: float, force: bool = False
) -> dict[ModelKind, TrainingCosts]:
    return stored_costs(find_home(), configs, dataset, seconds, force=force)
