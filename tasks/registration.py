"""Register a run's model, emit events for automations, and sample from the champion."""

import logging
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.tasks import Task

from rnnlm.config import GenerationConfig, PipelineConfig
from rnnlm.errors import TrackingError
from rnnlm.generation.generate import sample_model
from rnnlm.registry import registration
from rnnlm.registry.model_lookup import model_folder
from rnnlm.registry.version_tags import Candidate
from rnnlm.storage.home import find_home
from rnnlm.storage.records import DatasetRecord, NightEvent, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, RegisteredVersion, SamplesRecord
from tasks.operations.mlflow_pages import server_of_links
from tasks.operations.registry_turn import registry_turn


def is_tracking_failure(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Return True if MLflow has failed. A retry after another error could not succeed."""
    return isinstance(state.data, TrackingError)


@task(
    task_run_name="register {dataset.corpus_name}",
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=[2, 8],
    retry_condition_fn=is_tracking_failure,
)
def register_run(
    config: PipelineConfig,
    dataset: DatasetRecord,
    run: RunRecord,
    evaluation: EvaluationRecord,
    samples: SamplesRecord,
    told: PipelineConfig | None = None,
    force: bool = False,
) -> RegisteredVersion:
    """Register a run's model as champion or challenger, with retries while MLflow is unavailable.

    `told` is the configuration that the user gave, before the network's size was chosen. It is None if the user gave
    the size.
    """
    home = find_home()
    candidate = Candidate(config, dataset, run, evaluation, samples, told)
    with registry_turn(home):
        registered = registration.register_model(home, candidate, force=force)
    if run.mlflow_run_id and server_of_links(home, run.mlflow_run_id) == "another":
        return registered.model_copy(update={"url": ""})
    return registered


@task(task_run_name="tell automations", cache_policy=NO_CACHE)
def raise_events(events: tuple[NightEvent, ...]) -> int:
    """Emit Prefect events about a run, on which automations can act. Return the number of events."""
    emitted = 0
    for event in events:
        sent = emit_event(
            event.name,
            resource={
                "prefect.resource.id": event.resource_id,
                "prefect.resource.name": event.resource_name,
                **event.labels,
            },
            payload={"message": event.message, **event.payload},
        )
        emitted += sent is not None
    if emitted:
        # Prefect would log warnings while it waits for events to be sent.
        logging.getLogger("EventsWorker").setLevel(logging.ERROR)
        EventsWorker.instance().drain()  # The process may end soon, so it waits until the events are sent.
    return emitted


@task(task_run_name="sample the champion", cache_policy=NO_CACHE)
def sample_champion(model_name: str, generation: GenerationConfig) -> SamplesRecord:
    """Sample from the champion of a registered model."""
    return sample_model(model_folder(find_home(), f"models:/{model_name}@champion"), generation)
