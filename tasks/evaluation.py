"""Score a run, sample from it, probe it, and log the results."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import EvaluationConfig, GenerationConfig, ProbesConfig
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.extensions.probes.probe_records import GradientFlowRecord, PositionsRecord
from rnnlm.extensions.probes.run_probes import measure_gradient_flow, measure_positions
from rnnlm.extensions.surprise.surprise_measurement import surprise_of_run
from rnnlm.extensions.surprise.surprise_page import surprise_page
from rnnlm.generation import generate
from rnnlm.home import find_home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, LoggedRecord, SamplesRecord
from rnnlm.tracking import mlflow_runs
from tasks.operations.mlflow_pages import server_of_links


@task(task_run_name="evaluate on {dataset.corpus_name}", cache_policy=NO_CACHE)
def evaluate_perplexity(
    dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, force: bool = False
) -> EvaluationRecord:
    """Score a run on whole splits, beside the baselines."""
    return evaluate_run(find_home(), dataset, run, config, force=force)


@task(task_run_name="measure surprise on {dataset.corpus_name}", cache_policy=NO_CACHE)
def measure_surprise(dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, force: bool = False) -> str:
    """Store the loss of every token of the test split as Parquet in the run's folder, and report it as markdown."""
    return surprise_page(surprise_of_run(find_home(), dataset, run, config, force=force)).markdown()


@task(task_run_name="probe gradients on {dataset.corpus_name}", cache_policy=NO_CACHE)
def probe_gradient_flow(
    dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, force: bool = False
) -> GradientFlowRecord:
    """Measure and plot how far back the gradient of a run's loss reaches."""
    return measure_gradient_flow(find_home(), dataset, run, config, force=force)


@task(task_run_name="probe positions on {dataset.corpus_name}", cache_policy=NO_CACHE)
def probe_positions(
    dataset: DatasetRecord, run: RunRecord, config: ProbesConfig, force: bool = False
) -> PositionsRecord:
    """Measure and plot a run's accuracy by position in the row."""
    return measure_positions(find_home(), dataset, run, config, force=force)


@task(task_run_name="sample {dataset.corpus_name}", cache_policy=NO_CACHE)
def sample_run(dataset: DatasetRecord, run: RunRecord, config: GenerationConfig, force: bool = False) -> SamplesRecord:
    """Continue the configured prompts with a run's model."""
    return generate.generate_samples(find_home(), dataset, run, config, force=force)


@task(task_run_name="log results to MLflow", cache_policy=NO_CACHE)
def log_results(
    run: RunRecord, evaluation: EvaluationRecord, samples: SamplesRecord, pictures: tuple[Path, ...] = ()
) -> LoggedRecord:
    """Log a run's scores, samples, losses and plots to MLflow; without MLflow the pipeline continues.

    The pages are named only if another home's server does not answer at their address.
    """
    home = find_home()
    logged = mlflow_runs.log_run_results(home, run, evaluation, samples, pictures)
    if run.mlflow_run_id and server_of_links(home, run.mlflow_run_id) == "another":
        return logged.model_copy(update={"run_url": None, "run_list_url": None})
    return logged
