"""The MLflow run of each training run: configuration, dataset, metrics, scores, samples, losses, loss curve.

All of it is best effort: a failure of MLflow is a warning, and the run's folder has everything anyway.
"""

import json
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rnnlm.config import PipelineConfig
from rnnlm.config.moved_settings import flatten
from rnnlm.display.model_shape import model_shape
from rnnlm.evaluation.score_tables import counts_sentence
from rnnlm.generation.sample_page import samples_page
from rnnlm.runtime.current_user import who
from rnnlm.storage.home import Home, atomic_file
from rnnlm.storage.records import LOSSES, DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, LoggedRecord, SamplesRecord
from rnnlm.tracking.loss_curve import plot_loss_curve, plot_small_loss_curve
from rnnlm.tracking.mlflow_store import (
    RUN_LIST_VIEW,
    TRAINING_VIEW,
    best_effort,
    experiment_id,
    ignoring,
    is_embedded,
    reaching_mlflow,
    tracking_uri,
)
from rnnlm.tracking.run_names import run_name
from rnnlm.tracking.tracker import RunTracker
from rnnlm.training.history import HISTORY, TRACKING

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Run

TRACKING_KEY = "rnnlm.tracking_key"  # tag; a new value each time the run is trained again
CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}  # split → what MLflow calls its use
METRIC_PREFIXES = {"train": "train", "valid": "validation", "test": "test"}  # split → how its metrics begin
LONGEST_PARAMETER = 500  # characters
DIGEST_CHARACTERS = 36  # MLflow's limit for dataset digests
CORPUS, DECISION = "corpus", "decision"  # tags: columns that people filter by
NOTE = "mlflow.note.content"  # tag: the description
SCORES_END = "\n\n---\n\n"  # in the description, between the scores and what is known before training
LOSS_CURVE, SMALL_LOSS_CURVE = "loss_curve.png", "loss_curve_small.png"
LOSS_CURVES = {LOSS_CURVE: plot_loss_curve, SMALL_LOSS_CURVE: plot_small_loss_curve}


@dataclass(frozen=True)
class RunOrigin:
    """The flow run that started a training. The library does not know what made it."""

    name: str  # as the orchestrator shows it
    url: str | None = None  # of its page; None if there is none that lasts
    deployment: str = ""  # "" if a person started it by a command


@contextmanager
def open_tracker(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, run_id: str, origin: RunOrigin | None = None
) -> Iterator[RunTracker]:
    """The MLflow run of a training run, new or continued. It ends FINISHED, FAILED on an exception, else KILLED.

    While MLflow is unavailable the tracker's mlflow_run_id is None.
    """
    tracker = tracker_of(home, config, dataset, run_id, origin)
    tracker.flush()
    status = "KILLED"  # by Ctrl-C, or by Prefect cancelling the flow run
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
    """Log metrics `system/…` to the run by MLflow's own monitor, every 10 s. None: log nothing."""
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
    """The tracker of a run that may have begun before. What another, killed process has logged is kept.

    members: of an ensemble.
    """

    def find_run(client: "MlflowClient", key: str) -> str:
        """The id of the RUNNING MLflow run with this key, with the configuration and the dataset's reference."""
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
        # MLflow's parameters cannot be changed: of a setting without effect on results, the first value stays.
        new = [Param(name, value) for name, value in parameters(config).items() if name not in run.data.params]
        client.log_batch(mlflow_run_id, params=new)  # the client splits them into batches
        if run.inputs is None or not run.inputs.dataset_inputs:
            client.log_inputs(mlflow_run_id, datasets=[dataset_input(dataset, split) for split in CONTEXTS])
        if found:
            client.update_run(mlflow_run_id, status="RUNNING")
        return mlflow_run_id

    return RunTracker(home, home.runs / run_id, config.tracking.log_every_seconds, find_run)


def shown_tags(
    config: PipelineConfig, dataset: DatasetRecord, origin: RunOrigin | None, members: int
) -> dict[str, str]:
    """The tags that MLflow shows in columns of its own: user, source, and the description, in Markdown."""
    deployment = origin.deployment if origin else ""
    data = f"{dataset.predicted_tokens['train']:,} tokens of `{dataset.corpus_name}`"
    note = f"{model_shape(config.model, members)}, trained on {data}, vocabulary {dataset.vocabulary_size:,}"
    link = f"\n\nPrefect run: [{origin.name}]({origin.url})" if origin and origin.url else ""
    return {
        "mlflow.user": who().partition("@")[0],
        "mlflow.source.type": "JOB" if deployment else "LOCAL",
        "mlflow.source.name": f"deployment {deployment}" if deployment else "rnnlm",
        NOTE: f"{note}; preset `{config.preset}`.{link}",
    }


def parameters(config: PipelineConfig) -> dict[str, str]:
    """Dotted path of each field → its value as JSON; strings without quotes."""
    return {path: as_text(value) for path, value in flatten(config.model_dump(mode="json")).items()}


def as_text(value: Any) -> str:
    """A parameter's value as JSON; strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def shown_parameters(config: PipelineConfig) -> dict[str, str]:
    """parameters() that differ from the defaults, for a logged model: MLflow shows all of them in one row."""
    changed = flatten(config.model_dump(mode="json", exclude_defaults=True))
    return {path: as_text(value)[:LONGEST_PARAMETER] for path, value in changed.items() if path != "force"}


def dataset_input(dataset: DatasetRecord, split: str) -> "DatasetInput":
    """MLflow's reference to one split in the DuckDB file: name, digest and path, no data."""
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
    """The dataset's id, with the split's name unless it is `train`: MLflow has one dataset per digest."""
    suffix = "" if split == "train" else f"-{split}"
    return dataset.dataset_id[: DIGEST_CHARACTERS - len(suffix)] + suffix


def tracked_run(home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord) -> RunRecord:
    """The run with the id of its MLflow run in this store."""
    with best_effort("the run"), reaching_mlflow(home) as client:
        return run.model_copy(update={"mlflow_run_id": ensure_mlflow_run(client, home, config, dataset, run)})
    return run


def ensure_mlflow_run(
    client: "MlflowClient", home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord
) -> str:
    """The id of the training's MLflow run.

    If this store has none, it is made from the run's folder: MLflow was unavailable during the training or has lost the
    run since, or a machine with another store has trained.
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


def log_run_results(
    home: Home, run: RunRecord, evaluation: EvaluationRecord, samples: SamplesRecord, pictures: Sequence[Path] = ()
) -> LoggedRecord:
    """Log a run's scores, samples, losses and plots, and what could not be sent during training. Idempotent.

    Without MLflow the loss curves are still drawn, in the run's folder, and run_url is None.
    """
    curves = {name: drawn(run, name, draw) for name, draw in LOSS_CURVES.items()}
    mlflow_run_id, url = run.mlflow_run_id, None
    if mlflow_run_id is not None:
        with best_effort("the results"), reaching_mlflow(home) as client:
            if (run.folder / TRACKING).exists():
                RunTracker(home, run.folder, 0.0, lambda client, key: mlflow_run_id).send(client)
            found = client.get_run(mlflow_run_id)
            if found.info.status != "FINISHED":
                client.set_terminated(mlflow_run_id)
            log_scores(client, found, evaluation)
            client.log_text(mlflow_run_id, samples_page(samples.samples), "samples.md")
            listed = [sample.model_dump() for sample in samples.samples]
            client.log_dict(mlflow_run_id, {"samples": listed}, "samples.json")
            losses = run.folder / LOSSES
            log_files(client, mlflow_run_id, sorted([*losses.glob("*.parquet"), *losses.glob("*.png")]), LOSSES)
            log_files(client, mlflow_run_id, [*filter(None, [curves[LOSS_CURVE]]), *pictures])
            url = run_address(home, found.info.experiment_id, mlflow_run_id)
    return LoggedRecord(
        run_url=url,
        run_list_url=run_list_address(url) if url else None,
        loss_curve=curves[LOSS_CURVE],
        small_loss_curve=curves[SMALL_LOSS_CURVE],
    )


def drawn(run: RunRecord, name: str, draw: Callable[[Path, Path], None]) -> Path | None:
    """A plot in the run's folder, drawn from its history if it is missing. None: there is no history."""
    history, picture = run.folder / HISTORY, run.folder / name
    if history.exists() and not picture.exists():
        with atomic_file(picture) as partial:
            draw(history, partial)
    return picture if picture.exists() else None


def log_scores(client: "MlflowClient", run: "Run", evaluation: EvaluationRecord) -> None:
    """Log `<split>_<score>`, of whole splits, as metrics of the run, and the test scores in its description."""
    from mlflow.entities import Metric

    note = with_scores(run.data.tags.get(NOTE, ""), evaluation)
    if note != run.data.tags.get(NOTE):
        client.set_tag(run.info.run_id, NOTE, note)
    now = round(time.time() * 1000)  # milliseconds
    scores = {name: value for split in evaluation.scores for name, value in split_scores(evaluation, split).items()}
    known = run.data.metrics
    new = [Metric(name, value, now, 0) for name, value in scores.items() if known.get(name) != value]
    client.log_batch(run.info.run_id, metrics=new)


def log_decision(client: "MlflowClient", mlflow_run_id: str, corpus_name: str, decision: str) -> None:
    """Say in the list of runs how the registry has decided. A run that was deleted in MLflow stays so."""
    with ignoring("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
        for tag, value in ((CORPUS, corpus_name), (DECISION, decision)):
            client.set_tag(mlflow_run_id, tag, value)


def log_files(client: "MlflowClient", mlflow_run_id: str, files: Sequence[Path], folder: str | None = None) -> None:
    """Log files as artifacts of the run, unless MLflow has them in this size. folder: of the artifacts."""
    listed = client.list_artifacts(mlflow_run_id, folder)
    sizes = {Path(artifact.path).name: artifact.file_size for artifact in listed}
    for path in files:
        if sizes.get(path.name) != path.stat().st_size:
            client.log_artifact(mlflow_run_id, str(path), folder)


def split_scores(evaluation: EvaluationRecord, split: str) -> dict[str, float]:
    """Metric → value of one split."""
    score = evaluation.scores[split]
    scores = score.model_dump(exclude={"split", "model", "network", "counts"})
    for name, part in (("network", score.network), ("counts", score.counts)):
        if part is not None:
            scores |= {f"{name}_perplexity": part.perplexity, f"{name}_bits_per_byte": part.bits_per_byte}
    return {
        f"{METRIC_PREFIXES[split]}_{name}": float(value)
        for name, value in scores.items()
        if value is not None and math.isfinite(value)
    }


def log_model_scores(
    client: "MlflowClient", mlflow_run_id: str, model_id: str, dataset: DatasetRecord, evaluation: EvaluationRecord
) -> None:
    """Tie each split's scores to the logged model and to the split, so that MLflow can rank models by them."""
    from mlflow.entities import Metric

    now = round(time.time() * 1000)  # milliseconds
    metrics = [
        Metric(name, value, now, 0, model_id, dataset.corpus_name, split_digest(dataset, split))
        for split in evaluation.scores
        for name, value in split_scores(evaluation, split).items()
    ]
    client.log_batch(mlflow_run_id, metrics=metrics)


def with_scores(note: str, evaluation: EvaluationRecord) -> str:
    """The description with a sentence on the scores before it, once."""
    test = evaluation.scores["test"]
    counted = f"; {beside}" if (beside := counts_sentence(test)) else ""
    sentence = (
        f"**Test perplexity {test.perplexity:.2f}, {test.bits_per_byte:.3f} bits per byte** "
        f"(unigram baseline {test.unigram_perplexity:.2f}{counted})."
    )
    _, _, plain = note.rpartition(SCORES_END)
    return f"{sentence}{SCORES_END}{plain}"


def run_url(home: Home, mlflow_run_id: str | None) -> str | None:
    """The run's address on the tracking server, or in `mlflow ui` over the home's SQLite file.

    None if MLflow has no such run, or is unavailable.
    """
    if mlflow_run_id is None:
        return None
    with best_effort("the run's address"), reaching_mlflow(home) as client:
        return run_address(home, client.get_run(mlflow_run_id).info.experiment_id, mlflow_run_id)
    return None


def run_address(home: Home, experiment: str, mlflow_run_id: str) -> str:
    return f"{ui_address(home)}/#/experiments/{experiment}/runs/{mlflow_run_id}?{TRAINING_VIEW}"


def run_list_address(run_url: str) -> str:
    """The list of all runs of the run's experiment, with their perplexity."""
    return f"{run_url.rpartition('/')[0]}?{RUN_LIST_VIEW}"


def version_address(home: Home, name: str, version: int) -> str:
    return f"{ui_address(home)}/#/models/{name}/versions/{version}?{TRAINING_VIEW}"


def ui_address(home: Home) -> str:
    """RNNLM_MLFLOW_UI_URL, else the tracking server, else `mlflow ui`, which reads the same two variables."""
    if address := os.environ.get("RNNLM_MLFLOW_UI_URL"):  # workers may reach the server by a name that browsers cannot
        return address.rstrip("/")
    uri = tracking_uri(home)
    if uri.startswith(("http://", "https://")):
        return uri.rstrip("/")
    host, port = os.environ.get("MLFLOW_HOST", "127.0.0.1"), os.environ.get("MLFLOW_PORT", "5000")
    return f"http://{host}:{port}"


def ui_answers(home: Home) -> bool:
    """Whether a link to MLflow's pages leads anywhere now. A server that the user has named is taken to be up."""
    address = urlsplit(ui_address(home))
    if not is_embedded(home) or "RNNLM_MLFLOW_UI_URL" in os.environ:
        return True
    try:
        with socket.create_connection((str(address.hostname), address.port or 80), timeout=1):
            return True
    except OSError:
        return False
