"""Tasks of train_flow: a dataset becomes a trained, measured and registered model."""

from functools import partial
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from rnnlm.config import EvaluationConfig, GenerationConfig, PipelineConfig, ProbesConfig
from rnnlm.errors import TrackingError
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.evaluation.surprise.surprise_measurement import surprise_of_run
from rnnlm.generation import generate
from rnnlm.home import find_home
from rnnlm.probes.run_probes import measure_gradient_flow, measure_positions
from rnnlm.records import (
    DatasetRecord,
    EvaluationRecord,
    GradientFlowRecord,
    LoggedRecord,
    PositionsRecord,
    RegisteredVersion,
    RunRecord,
    SamplesRecord,
)
from rnnlm.registry import registration
from rnnlm.registry.version_tags import Candidate
from rnnlm.reports.surprise_page import surprise_report
from rnnlm.scoring import reference_scores
from rnnlm.tracking.mlflow_runs import (
    log_loss_curve,
    log_losses,
    log_picture,
    log_samples,
    log_scores,
    open_tracker,
    run_url,
    send_rest,
)
from rnnlm.training.training_run import run_training


@task(
    task_run_name="train-{config.model.layers}x{config.model.hidden_size}-on-{dataset.corpus_name}",
    cache_policy=NO_CACHE,
)
def train_model(config: PipelineConfig, dataset: DatasetRecord, force: bool = False) -> RunRecord:
    """Train, tracked in MLflow; the run's folder gets the best weights. The whole configuration is logged with it."""
    home = find_home()
    return run_training(home, config, dataset, partial(open_tracker, home, config, dataset), force=force)


@task(task_run_name="evaluate-{run.run_id}", cache_policy=NO_CACHE)
def evaluate_perplexity(
    dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, force: bool = False
) -> EvaluationRecord:
    """Score a run on whole splits, beside the baselines."""
    return evaluate_run(find_home(), dataset, run, config, force=force)


@task(task_run_name="keep-references-of-{run.run_id}", cache_policy=NO_CACHE)
def keep_references(dataset: DatasetRecord, run: RunRecord, force: bool = False) -> list[Path]:
    """Store the scores of a run's validation text beside its model, for later comparisons with scored texts."""
    return reference_scores.keep_references(find_home(), dataset, run, force=force)


@task(task_run_name="surprise-of-{run.run_id}", cache_policy=NO_CACHE)
def measure_surprise(dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, force: bool = False) -> str:
    """Store the loss of every token of the test split as Parquet in the run's folder, and report it as markdown."""
    return surprise_report(surprise_of_run(find_home(), dataset, run, config, force=force))


@task(task_run_name="probe-gradients-of-{run.run_id}", cache_policy=NO_CACHE)
def probe_gradients(
    dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, force: bool = False
) -> GradientFlowRecord:
    """Measure and plot how far back the gradient of a run's loss reaches."""
    return measure_gradient_flow(find_home(), dataset, run, config, force=force)


@task(task_run_name="probe-positions-of-{run.run_id}", cache_policy=NO_CACHE)
def probe_positions(
    dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, force: bool = False
) -> PositionsRecord:
    """Measure and plot a run's accuracy by position in the row."""
    return measure_positions(find_home(), dataset, run, config, force=force)


@task(task_run_name="sample-{run.run_id}", cache_policy=NO_CACHE)
def generate_samples(
    dataset: DatasetRecord, run: RunRecord, config: GenerationConfig, force: bool = False
) -> SamplesRecord:
    """Continue the configured prompts with a run's model."""
    return generate.generate_samples(find_home(), dataset, run, config, force=force)


@task(task_run_name="log-results-of-{run.run_id}", cache_policy=NO_CACHE)
def log_results(
    run: RunRecord, evaluation: EvaluationRecord, samples: SamplesRecord, pictures: tuple[Path, ...] = ()
) -> LoggedRecord:
    """Log a run's scores, samples, losses and plots to MLflow; without MLflow the pipeline continues."""
    home = find_home()
    send_rest(home, run)
    log_scores(home, run, evaluation)
    log_samples(home, run, samples)
    log_losses(home, run)
    for picture in pictures:
        log_picture(home, run, picture)
    return LoggedRecord(loss_curve=log_loss_curve(home, run), run_url=run_url(home, run))


def is_tracking_failure(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Retry only if MLflow failed: a user error would fail again."""
    return isinstance(state.data, TrackingError)


@task(
    task_run_name="register-{run.run_id}",
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=[2, 8],
    retry_condition_fn=is_tracking_failure,
)
def register_model(
    config: PipelineConfig,
    dataset: DatasetRecord,
    run: RunRecord,
    evaluation: EvaluationRecord,
    samples: SamplesRecord,
    force: bool = False,
) -> RegisteredVersion:
    """Register a run's model as champion or challenger, with retries while MLflow is unavailable."""
    return registration.register_model(find_home(), Candidate(config, dataset, run, evaluation, samples), force=force)
