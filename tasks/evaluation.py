"""Evaluate a run's model, sample from it, and log the results."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import task_run

from rnnlm.config import EvaluationConfig, GenerationConfig, PipelineConfig
from rnnlm.evaluation.measurements import Measured, ModelMeasurement
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.generation import generate
from rnnlm.storage.home import find_home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, LoggedRecord, SamplesRecord
from rnnlm.tracking.run_results import log_run_results
from tasks.operations.mlflow_pages import server_of_links


@task(task_run_name="evaluate on {dataset.corpus_name}", cache_policy=NO_CACHE)
def evaluate_perplexity(
    dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, force: bool = False
) -> EvaluationRecord:
    """Score whole splits with the model of a run and with the baselines."""
    return evaluate_run(find_home(), dataset, run, config, force=force)


def name_measurement() -> str:
    """Return the task run's name, which contains the names of the measurement and the corpus."""
    parameters = task_run.parameters
    return f"measure {parameters['measurement'].name} of {parameters['dataset'].corpus_name}"


@task(task_run_name=name_measurement, cache_policy=NO_CACHE)
def measure_model(
    measurement: ModelMeasurement, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord, force: bool = False
) -> Measured:
    """Run an extension's measurement of a run's model."""
    return measurement.measure(find_home(), config, dataset, run, force)


@task(task_run_name="sample {dataset.corpus_name}", cache_policy=NO_CACHE)
def sample_run(dataset: DatasetRecord, run: RunRecord, config: GenerationConfig, force: bool = False) -> SamplesRecord:
    """Continue the configured prompts with a run's model."""
    return generate.generate_samples(find_home(), dataset, run, config, force=force)


@task(task_run_name="log results to MLflow", cache_policy=NO_CACHE)
def log_results(
    run: RunRecord, evaluation: EvaluationRecord, samples: SamplesRecord, pictures: tuple[Path, ...] = ()
) -> LoggedRecord:
    """Log a run's scores, samples, losses and plots to MLflow. If MLflow is unavailable, the pipeline continues.

    Links to MLflow's pages are left out if the server at their address belongs to another rnnlm home.
    """
    home = find_home()
    logged = log_run_results(home, run, evaluation, samples, pictures)
    if run.mlflow_run_id and server_of_links(home, run.mlflow_run_id) == "another":
        return logged.model_copy(update={"run_url": None, "run_list_url": None})
    return logged
