"""Compare kinds of models on the same tokens, with the same training loop, number of parameters, trials and seeds.

Every trial and every seed is an ordinary training run. An interrupted comparison finds its finished runs and continues.
Two processes may divide the models of a comparison among themselves. With match=seconds they may not, because the
number of tokens depends on speeds that are measured together.
"""

import logging
import math

from prefect.artifacts import create_markdown_artifact

from flows.operations.flow_start import link_to_mlflow, rnnlm_flow, start_flow_run
from flows.pipeline_flow import prepare
from rnnlm.config import PipelineConfig
from rnnlm.errors import TrainingError
from rnnlm.extensions.comparison.comparison_config import CompareConfig
from rnnlm.extensions.comparison.comparison_page import comparison_report
from rnnlm.extensions.comparison.model_comparison import ModelComparison, TrainedModel
from rnnlm.extensions.comparison.model_result import Trial, best_settings
from rnnlm.extensions.comparison.run_plan import (
    TunedSettings,
    configured_settings,
    matched_configs,
    token_budget,
    trial_settings,
    with_curve,
    with_settings,
    with_token_budget,
)
from rnnlm.storage.records import DatasetRecord
from rnnlm.tracking.run_names import page_key
from tasks.comparison import compare_costs, log_compared_models, report_comparison
from tasks.evaluation import evaluate_perplexity
from tasks.training import train_model

FINALISTS = 2  # The number of tuning trials of each model that are trained again on all tokens.

logger = logging.getLogger("rnnlm.extensions.comparison")


@rnnlm_flow("compare")
def compare_flow(config: CompareConfig = CompareConfig(), force: bool = False) -> ModelComparison:
    """Train and measure every model, and publish the report.

    Args:
        config: The models, what is matched, the seeds and trials, and the pipeline's settings.
        force: Measure speed and memory again, and write the report again. Finished training runs are kept, but with
            match=seconds another speed means another number of tokens.
    """
    config = start_flow_run(config)
    prepared = prepare(config.pipeline)  # Copied text is reported here, before any model is trained.
    dataset = prepared.dataset
    configs = matched_configs(config, dataset)
    costs = compare_costs(configs, dataset, config.cost_seconds, force=force)
    trained = {}
    for kind, matched in configs.items():
        tokens = token_budget(config, dataset, costs[kind].tokens_per_second)
        whole = with_curve(with_token_budget(matched, tokens, dataset))
        short = with_token_budget(whole, max(1, round(config.trial_share * tokens)), dataset)
        trials = tuning_trials(config.trials, short, whole, dataset)
        chosen = best_settings(trials) or configured_settings(matched)
        first_seed = matched.training.seed
        seeded = [with_settings(whole, chosen, first_seed + number) for number in range(config.seeds)]
        runs = [train_model(one, dataset) for one in seeded]
        evaluations = [evaluate_perplexity(dataset, run, whole.evaluation) for run in runs]
        trained[kind] = TrainedModel(
            config=seeded[0], trials=trials, settings=chosen, runs=tuple(runs), evaluations=tuple(evaluations)
        )
    comparison = report_comparison(config, dataset, trained, costs, prepared.score_warnings, force=force)
    create_markdown_artifact(
        comparison_report(comparison),
        key=page_key(dataset.corpus_name, "comparison"),
        description=f"Kinds of models compared on {dataset.corpus_name}",
    )
    link_to_mlflow(log_compared_models(comparison, config.pipeline.tracking))
    return comparison


def tuning_trials(
    count: int, short: PipelineConfig, whole: PipelineConfig, dataset: DatasetRecord
) -> tuple[Trial, ...]:
    """Return the results of all trials on a fraction of the tokens, and of the FINALISTS on all tokens.

    `short` and `whole` are the configurations for these two steps. The second step is needed because the best learning
    rate for a fraction of the tokens may be too high for all of them.
    """
    trials = [
        Trial(settings=settings, validation_perplexity=trial_perplexity(short, settings, dataset))
        for settings in trial_settings(short, count)
    ]
    finished = [trial for trial in trials if trial.validation_perplexity is not None]
    finalists = sorted(finished, key=lambda trial: trial.validation_perplexity or math.inf)[:FINALISTS]
    if len(finalists) == 1:
        return tuple(trials)
    return tuple(
        trial.model_copy(update={"final_perplexity": trial_perplexity(whole, trial.settings, dataset)})
        if trial in finalists
        else trial
        for trial in trials
    )


def trial_perplexity(pipeline: PipelineConfig, settings: TunedSettings, dataset: DatasetRecord) -> float | None:
    """Train a model with `settings`, and return its validation perplexity, or None if training diverged."""
    config = with_settings(pipeline, settings, pipeline.training.seed)
    try:
        return train_model(config, dataset).best_validation_perplexity
    except TrainingError as error:
        logger.warning("%s: a trial failed: %s", pipeline.model.kind, error)
        return None


if __name__ == "__main__":
    compare_flow()
