"""The MLflow run of each training run, with configuration, dataset, metrics, scores, samples, losses and loss curve.

A failure of MLflow only causes a warning, because the run's folder contains all results.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rnnlm.config import PipelineConfig
from rnnlm.config.moved_settings import flatten
from rnnlm.corpora.source_names import as_stored
from rnnlm.display.model_shape import model_shape
from rnnlm.runtime.current_user import who
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.tracking.mlflow_store import (
    best_effort,
    experiment_id,
    ignoring,
    reaching_mlflow,
    tracking_uri,
)
from rnnlm.tracking.run_names import run_name
from rnnlm.tracking.tracker import RunTracker

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput

# The tag with a key that is created whenever a run is trained. If the run is trained again, it gets a new key.
TRACKING_KEY = "rnnlm.tracking_key"
# MLflow's names for the purposes of the splits.
CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}
LONGEST_PARAMETER = 500  # The maximum number of characters of a parameter's value in MLflow.
DIGEST_CHARACTERS = 36  # The maximum number of characters of a dataset's digest in MLflow.
CORPUS, DECISION = "corpus", "decision"  # Tags that MLflow shows as columns, by which users filter runs.
NOTE = "mlflow.note.content"  # The tag with the description of a run or experiment.
# The separator after the scores in a run's description. The text after the separator was written before training.
SCORES_END = "\n\n---\n\n"


@dataclass(frozen=True)
class RunOrigin:
    """The flow run that started a training run. The library does not depend on a particular orchestrator."""

    name: str  # The name of the flow run that the orchestrator shows.
    url: str | None = None  # The address of the flow run's page, or None if there is no permanent one.
    deployment: str = ""  # The name of the deployment, or "" if a user started the run by a command.


@contextmanager
def open_tracker(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, run_id: str, origin: RunOrigin | None = None
) -> Iterator[RunTracker]:
    """Open the MLflow run of a training run, which is a new one or continues an earlier one.

    At the end of the context, the MLflow run gets the status FINISHED, or FAILED after an exception, or KILLED after an
    interruption. While MLflow is unavailable, the tracker's mlflow_run_id is None.
    """
    tracker = tracker_of(home, config, dataset, run_id, origin)
    tracker.flush()
    status = "KILLED"  # Ctrl-C stopped training, or Prefect cancelled the flow run.
    try:
        with system_metrics(home, tracker.mlflow_run_id if config.tracking.system_metrics else None):
            yield tracker
        status = "FINISHED"
    except Exception:
        status = "FAILED"
        raise
    finally:
        tracker.close(status)


@contextmanager
def system_metrics(home: Home, mlflow_run_id: str | None) -> Iterator[None]:
    """Log the metrics `system/…` every 10 s by MLflow's own monitor. Without an MLflow run, log nothing."""
    if mlflow_run_id is None:
        yield
        return
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(mlflow_run_id, resume_logging=True, tracking_uri=tracking_uri(home))
    monitor.start()
    try:
        yield
    finally:
        monitor.finish()


def tracker_of(
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    run_id: str,
    origin: RunOrigin | None = None,
    members: int = 0,
) -> RunTracker:
    """Return the tracker of a run. Metrics that a killed process has logged are kept.

    `members` is the number of networks of an ensemble.
    """

    def find_run(client: "MlflowClient", key: str) -> str:
        """Return the id of the RUNNING MLflow run with this key, to which configuration and dataset are logged."""
        from mlflow.entities import Param

        experiment = experiment_id(client, home, config.tracking.experiment)
        found = client.search_runs([experiment], f"tags.`{TRACKING_KEY}` = '{key}'", max_results=1)
        tags = {
            TRACKING_KEY: key,
            "rnnlm.run_id": run_id,
            "rnnlm.dataset_id": dataset.dataset_id,
            "rnnlm.corpus_digest": dataset.corpus_digest,
            CORPUS: dataset.corpus_name,
            **shown_tags(config, dataset, origin, members),
        }
        name = origin.name if origin else run_name(dataset.corpus_name, config.preset, datetime.now(UTC))
        run = found[0] if found else client.create_run(experiment, tags=tags, run_name=name)
        mlflow_run_id = str(run.info.run_id)
        # A parameter that was already logged keeps its first value, because MLflow's parameters cannot be changed.
        new = [Param(name, value) for name, value in parameters(config).items() if name not in run.data.params]
        # MlflowClient splits the parameters into batches that the server accepts.
        client.log_batch(mlflow_run_id, params=new)
        if run.inputs is None or not run.inputs.dataset_inputs:
            client.log_inputs(mlflow_run_id, datasets=[dataset_input(dataset, split) for split in CONTEXTS])
        if found:
            client.update_run(mlflow_run_id, status="RUNNING")
        return mlflow_run_id

    return RunTracker(home, home.runs / run_id, config.tracking.log_every_seconds, find_run)


def shown_tags(
    config: PipelineConfig, dataset: DatasetRecord, origin: RunOrigin | None, members: int
) -> dict[str, str]:
    """Return the tags that MLflow shows in separate columns: user, source, and the description in Markdown."""
    deployment = origin.deployment if origin else ""
    data = f"{dataset.predicted_tokens['train']:,} tokens of `{dataset.corpus_name}`"
    # The description mentions no n-gram model yet, because its weights in the mixture are fitted after training. The
    # sentence about the scores mentions it.
    model = config.model.model_copy(update={"counts": 0}) if config.model.has_network else config.model
    note = f"{model_shape(model, members)}, trained on {data}, vocabulary {dataset.vocabulary_size:,}"
    link = f"\n\nPrefect run: [{origin.name}]({origin.url})" if origin and origin.url else ""
    return {
        "mlflow.user": who().partition("@")[0],
        "mlflow.source.type": "JOB" if deployment else "LOCAL",
        "mlflow.source.name": f"deployment {deployment}" if deployment else "rnnlm",
        NOTE: f"{note}; preset `{config.preset}`.{link}",
    }


def parameters(config: PipelineConfig) -> dict[str, str]:
    """Return the value of each setting by its dotted path, as JSON but without quotes around strings."""
    return {path: as_text(value) for path, value in flatten(as_stored(config).model_dump(mode="json")).items()}


def as_text(value: Any) -> str:
    """Return a parameter's value as JSON, but without quotes around a string."""
    return value if isinstance(value, str) else json.dumps(value)


def shown_parameters(config: PipelineConfig) -> dict[str, str]:
    """Return the parameters() that differ from the defaults, as the parameters of a logged model.

    MLflow shows all parameters of a logged model in one row, so only a few are logged.
    """
    changed = flatten(as_stored(config).model_dump(mode="json", exclude_defaults=True))
    return {path: as_text(value)[:LONGEST_PARAMETER] for path, value in changed.items() if path != "force"}


def dataset_input(dataset: DatasetRecord, split: str) -> "DatasetInput":
    """Return MLflow's reference to a split in the DuckDB file. It has a name, a digest and a path, but no data."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    reference = Dataset(
        name=dataset.corpus_name,
        digest=split_digest(dataset, split),
        source_type="local",
        source=json.dumps({"uri": dataset.database.as_uri()}),
        profile=json.dumps({f"{split}_tokens": count for split, count in dataset.predicted_tokens.items()}),
    )
    return DatasetInput(reference, tags=[InputTag("mlflow.data.context", CONTEXTS[split])])


def split_digest(dataset: DatasetRecord, split: str) -> str:
    """Return a digest for a split: the dataset's id, followed by the split's name unless the split is `train`.

    The digests must differ, because MLflow stores only one dataset for each digest.
    """
    suffix = "" if split == "train" else f"-{split}"
    return dataset.dataset_id[: DIGEST_CHARACTERS - len(suffix)] + suffix


def tracked_run(home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord) -> RunRecord:
    """Return the run record with the id of its MLflow run in the current store. Create this run if it is missing."""
    with best_effort("the run"), reaching_mlflow(home) as client:
        return run.model_copy(update={"mlflow_run_id": ensure_mlflow_run(client, home, config, dataset, run)})
    return run


def ensure_mlflow_run(
    client: "MlflowClient", home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord
) -> str:
    """Return the id of the training run's MLflow run. If this store has no such run, create it from the run's folder.

    The run is missing if MLflow was unavailable during training, if it was lost, or if the run was trained on a machine
    with another store.
    """
    experiment = experiment_id(client, home, config.tracking.experiment)
    found = client.search_runs([experiment], f"tags.`rnnlm.run_id` = '{run.run_id}'", max_results=100)
    known = [str(one.info.run_id) for one in found]
    if run.mlflow_run_id and (run.mlflow_run_id in known or exists(client, run.mlflow_run_id)):
        return run.mlflow_run_id
    if known:
        return known[0]
    tracker = tracker_of(home, config, dataset, run.run_id, members=len(run.members))
    tracker.send(client)
    mlflow_run_id = tracker.begin(client)
    client.set_terminated(mlflow_run_id)
    return mlflow_run_id


def exists(client: "MlflowClient", mlflow_run_id: str) -> bool:
    with ignoring("RESOURCE_DOES_NOT_EXIST"):
        return client.get_run(mlflow_run_id).info.lifecycle_stage == "active"
    return False
