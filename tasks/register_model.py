"""Register a run's model as champion or challenger, with retries while MLflow is unavailable."""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from rnnlm.config import PipelineConfig
from rnnlm.errors import TrackingError
from rnnlm.home import find_home
from rnnlm.records import DatasetRecord, EvaluationRecord, RegisteredVersion, RunRecord, SamplesRecord
from rnnlm.registry import registration
from rnnlm.registry.version_tags import Candidate


def is_tracking_failure(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Retry only if MLflow failed: a user error would fail again."""
    return isinstance(state.data, TrackingError)


@task(
    task_run_name="register {dataset.corpus_name}",
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
    return registration.register_model(find_home(), Candidate(config, dataset, run, evaluation, samples), force=force)
