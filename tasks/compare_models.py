"""Put the results of all models together: figures, plots, one HTML page."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.comparison import model_comparison
from rnnlm.comparison.comparison_config import CompareConfig
from rnnlm.comparison.comparison_plots import draw_comparison
from rnnlm.comparison.model_comparison import ModelComparison, TrainedModel
from rnnlm.comparison.training_costs import TrainingCosts
from rnnlm.config import ModelKind
from rnnlm.home import atomic_file, find_home
from rnnlm.records import DatasetRecord
from rnnlm.reports.comparison_page import comparison_html


@task(task_run_name="compare models on {dataset.corpus_name}", cache_policy=NO_CACHE)
def compare_models(
    config: CompareConfig,
    dataset: DatasetRecord,
    trained: dict[ModelKind, TrainedModel],
    costs: dict[ModelKind, TrainingCosts],
    score_warnings: tuple[str, ...] = (),
    force: bool = False,
) -> ModelComparison:
    comparison = model_comparison.compare_models(find_home(), config, dataset, trained, costs, force=force)
    comparison = comparison.model_copy(update={"score_warnings": score_warnings})
    with atomic_file(comparison.picture) as partial:
        draw_comparison(comparison, partial)
    with atomic_file(comparison.page) as partial:
        partial.write_text(comparison_html(comparison), encoding="utf-8")
    return comparison
