"""A run's model in the registry, as champion or challenger; MLflow out of reach is asked again."""

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


def the_world_failed(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """A user's mistake does not mend itself; MLflow may come back."""
    return isinstance(state.data, TrackingError)


@task(
    task_run_name="register-{run.run_id}",
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=[2, 8],
    retry_condition_fn=the_world_failed,
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
