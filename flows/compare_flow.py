"""Compare kinds of models on the same tokens: same loop, same number of parameters, trials and seeds.

Every trial and every seed is an ordinary training run. A finished run is found again, so an interrupted comparison
goes on where it stopped, and two processes may share the models between them (not with match=seconds, whose number of
tokens follows from speeds that are measured together).
"""

import logging

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.operations.flow_start import plain_failures, start_flow_run
from flows.operations.run_labels import flow_run_label
from flows.pipeline_flow import prepare
from rnnlm.comparison.comparison_config import CompareConfig
from rnnlm.comparison.model_comparison import ModelComparison, TrainedModel
from rnnlm.comparison.model_result import Trial
from rnnlm.comparison.run_plan import (
    TunedSettings,
    matched_configs,
    token_budget,
    trial_settings,
    with_curve,
    with_settings,
    with_token_budget,
)
from rnnlm.config import PipelineConfig
from rnnlm.errors import TrainingError
from rnnlm.records import DatasetRecord
from rnnlm.reports.comparison_page import comparison_report
from rnnlm.run_names import page_key
from tasks.compare_models import compare_models
from tasks.evaluate_perplexity import evaluate_perplexity
from tasks.log_model_comparison import log_model_comparison
from tasks.measure_costs import measure_costs
from tasks.train_model import train_model

logger = logging.getLogger("rnnlm.comparison")


@flow(name="compare", flow_run_name=flow_run_label)
@plain_failures
def compare_flow(config: CompareConfig = CompareConfig(), force: bool = False) -> ModelComparison:
    """Train and measure every model, and publish the report.

    Args:
        config: Models, what is matched, seeds and trials; and the pipeline's settings.
        force: Measure speed and memory again, and write the report again. Finished training runs stay, but with
            match=seconds another speed means another number of tokens.

    """
    config = start_flow_run(config)
    prepared = prepare(config.pipeline)  # warns of copied text before anything is trained
    dataset = prepared.dataset
    configs = matched_configs(config, dataset)
    costs = measure_costs(configs, dataset, config.cost_seconds, force=force)
    trained = {}
    for kind, matched in configs.items():
        tokens = token_budget(config, dataset, costs[kind].tokens_per_second)
        trials = tune_model(config, matched, dataset, tokens)
        chosen = best_settings(matched, trials)
        whole = with_curve(with_token_budget(matched, tokens, dataset))
        first_seed = matched.training.seed
        seeded = [with_settings(whole, chosen, first_seed + number) for number in range(config.seeds)]
        runs = [train_model(one, dataset) for one in seeded]
        evaluations = [evaluate_perplexity(dataset, run, whole.evaluation) for run in runs]
        trained[kind] = TrainedModel(
            config=seeded[0], trials=trials, settings=chosen, runs=tuple(runs), evaluations=tuple(evaluations)
        )
    comparison = compare_models(config, dataset, trained, costs, prepared.score_warnings, force=force)
    create_markdown_artifact(
        comparison_report(comparison),
        key=page_key(dataset.corpus_name, "comparison"),
        description=f"Kinds of models compared on {dataset.corpus_name}",
    )
    run_url = log_model_comparison(comparison, config.pipeline.tracking)
    if run_url:
        create_link_artifact(run_url, "The comparison in MLflow", key="mlflow-run")
    return comparison


def tune_model(
    config: CompareConfig, matched: PipelineConfig, dataset: DatasetRecord, tokens: int
) -> tuple[Trial, ...]:
    """The results of the tuning trials, each trained on a share of the tokens."""
    short = with_token_budget(matched, max(1, round(config.trial_share * tokens)), dataset)
    results = []
    for settings in trial_settings(matched, config.trials)[: config.trials]:
        try:
            run = train_model(with_settings(short, settings, matched.training.seed), dataset)
            perplexity = run.best_validation_perplexity
        except TrainingError as error:
            logger.warning("%s: a trial failed: %s", matched.model.kind, error)
            perplexity = None
        results.append(Trial(settings=settings, validation_perplexity=perplexity))
    return tuple(results)


def best_settings(matched: PipelineConfig, trials: tuple[Trial, ...]) -> TunedSettings:
    """Those of the trial with the lowest validation perplexity; the configured ones if no trial has finished."""
    scores = {trial.settings: trial.validation_perplexity for trial in trials if trial.validation_perplexity}
    return min(scores, key=scores.__getitem__, default=trial_settings(matched, 1)[0])


if __name__ == "__main__":
    compare_flow()
