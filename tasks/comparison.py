"""Measure the training costs of the compared models, and report their comparison."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import ModelKind, PipelineConfig, TrackingConfig
from rnnlm.extensions.comparison import model_comparison
from rnnlm.extensions.comparison.comparison_config import CompareConfig
from rnnlm.extensions.comparison.comparison_page import comparison_html
from rnnlm.extensions.comparison.comparison_plots import draw_comparison
from rnnlm.extensions.comparison.comparison_tracking import log_model_comparison
from rnnlm.extensions.comparison.model_comparison import ModelComparison, TrainedModel, stored_costs
from rnnlm.extensions.comparison.training_costs import TrainingCosts
from rnnlm.storage.home import atomic_file, find_home
from rnnlm.storage.records import DatasetRecord


@task(task_run_name="measure costs", cache_policy=NO_CACHE)
def compare_costs(
    configs: dict[ModelKind, PipelineConfig], dataset: DatasetRecord, seconds: float, force: bool = False
) -> dict[ModelKind, TrainingCosts]:
    """Measure the time and memory of training and generating with each model, under the same conditions."""
    return stored_costs(find_home(), configs, dataset, seconds, force=force)


@task(task_run_name="compare models on {dataset.corpus_name}", cache_policy=NO_CACHE)
def report_comparison(
    config: CompareConfig,
    dataset: DatasetRecord,
    trained: dict[ModelKind, TrainedModel],
    costs: dict[ModelKind, TrainingCosts],
    score_warnings: tuple[str, ...] = (),
    force: bool = False,
) -> ModelComparison:
    """Write the results of all compared models: values, plots, and one HTML page."""
    comparison = model_comparison.compare_models(find_home(), config, dataset, trained, costs, force=force)
    comparison = comparison.model_copy(update={"score_warnings": score_warnings})
    with atomic_file(comparison.picture) as partial:
        draw_comparison(comparison, partial)
    with atomic_file(comparison.page) as partial:
        partial.write_text(comparison_html(comparison), encoding="utf-8")
    return comparison


@task(task_run_name="log to MLflow", cache_policy=NO_CACHE)
def log_compared_models(comparison: ModelComparison, tracking: TrackingConfig) -> str | None:
    """Log a comparison of models as an MLflow run, with the models' training runs nested below it.

    Return the URL of the MLflow run, or None if MLflow is unavailable.
    """
    return log_model_comparison(find_home(), comparison, tracking)
