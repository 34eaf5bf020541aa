"""The MLflow run of each training run: configuration, dataset, metrics, scores, samples, losses, loss curve.

All of it is best effort: a failure of MLflow is a warning, and the run's folder has everything anyway.
"""

import json
import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rnnlm.config import PipelineConfig
from rnnlm.config.moved_settings import flatten
from rnnlm.evaluation.score_tables import counts_sentence
from rnnlm.generation.sample_page import samples_page
from rnnlm.home import Home, atomic_file
from rnnlm.models.kinds import kind_of
from rnnlm.runtime.current_user import who
from rnnlm.storage.records import LOSSES, DatasetRecord, EvaluationRecord, RunRecord, SamplesRecord
from rnnlm.tracking.experiment_page import RUN_LIST_VIEW, TRAINING_VIEW
from rnnlm.tracking.loss_curve import plot_loss_curve, plot_small_loss_curve
from rnnlm.tracking.mlflow_store import best_effort, experiment_id, ignoring, is_embedded, reaching_mlflow, tracking_uri
from rnnlm.tracking.run_names import run_name
from rnnlm.tracking.run_origin import RunOrigin
from rnnlm.tracking.tracker import RunTracker
from rnnlm.training.history import HISTORY, TRACKING

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput

TRACKING_KEY = "rnnlm.tracking_key"  # tag; a new value each time the run is trained again
CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}  # split → what MLflow calls its use
METRIC_PREFIXES = {"train": "train", "valid": "validation", "test": "test"}  # split → how its metrics begin
LONGEST_PARAMETER = 500  # characters
DIGEST_CHARACTERS = 36  # MLflow's limit for dataset digests
NOTE = "mlflow.note.content"  # tag: the description
SCORES_END = "\n\n---\n\n"  # in the description, between the scores and what is known before training
LOSS_CURVE, SMALL_LOSS_CURVE = "loss_curve.png", "loss_curve_small.png"


@contextmanager
def open_tracker(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, run_id: str, origin: RunOrigin | None = None
) -> Iterator[RunTracker]:
    """The MLflow run of a training run, new or continued. It ends FINISHED, FAILED on an exception, else KILLED.

    While MLflow is unavailable the tracker's mlflow_run_id is None.
    """
    tracker = tracker_of(home, config, dataset, run_id, home.runs / run_id, origin)
    tracker.flush()
    try:
        with system_metrics(home, tracker.mlflow_run_id if config.tracking.system_metrics else None):
            yield tracker
    except Exception:
        tracker.close("FAILED")
        raise
    except BaseException:  # Ctrl-C, or Prefect cancelling the flow run
        tracker.close("KILLED")
        raise
    tracker.close("FINISHED")


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
    folder: Path,
    origin: RunOrigin | None = None,
) -> RunTracker:
    def find_run(client: "MlflowClient", key: str) -> str:
        return running_run(client, home, config, dataset, run_id, key, origin)

    return RunTracker(home, folder, config.tracking.log_every_seconds, find_run)


def running_run(
    client: "MlflowClient",
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    run_id: str,
    key: str,
    origin: RunOrigin | None = None,
) -> str:
    """The id of the RUNNING MLflow run with this key, with the configuration and the dataset's reference.

    What another, killed process has logged already is kept.
    """
    from mlflow.entities import Param

    experiment = experiment_id(client, home, config.tracking.experiment)
    found = client.search_runs([experiment], f"tags.`{TRACKING_KEY}` = '{key}'", max_results=1)
    tags = {
        TRACKING_KEY: key,
        "rnnlm.run_id": run_id,
        "rnnlm.dataset_id": dataset.dataset_id,
        "rnnlm.corpus_digest": dataset.corpus_digest,
        **shown_tags(config, dataset, origin),
    }
    name = origin.name if origin else run_name(dataset.corpus_name, config.preset, datetime.now(UTC))
    run = found[0] if found else client.create_run(experiment, tags=tags, run_name=name)
    mlflow_run_id = str(run.info.run_id)
    # MLflow's parameters cannot be changed; if a setting without effect on results has changed, the first value stays.
    new = [Param(name, value) for name, value in parameters(config).items() if name not in run.data.params]
    client.log_batch(mlflow_run_id, params=new)  # the client splits them into batches
    if run.inputs is None or not run.inputs.dataset_inputs:
        client.log_inputs(mlflow_run_id, datasets=[dataset_input(dataset, split) for split in CONTEXTS])
    if found:
        client.update_run(mlflow_run_id, status="RUNNING")
    return mlflow_run_id


def shown_tags(config: PipelineConfig, dataset: DatasetRecord, origin: RunOrigin | None) -> dict[str, str]:
    """The tags that MLflow shows in columns of its own: user, source and description."""
    by_schedule = origin is not None and origin.deployment
    return {
        "mlflow.user": who().partition("@")[0],
        "mlflow.source.type": "JOB" if by_schedule else "LOCAL",
        "mlflow.source.name": f"deployment {origin.deployment}" if origin and by_schedule else "rnnlm",
        NOTE: training_note(config, dataset, origin),
    }


def training_note(config: PipelineConfig, dataset: DatasetRecord, origin: RunOrigin | None) -> str:
    """The run's description in markdown, as long as it has no scores."""
    model, tokens = config.model, dataset.predicted_tokens["train"]
    kind = kind_of(model.kind)
    layers = f" of {model.layers} {'layer' if model.layers == 1 else 'layers'} of {model.units} units"
    shape = f"{kind.name}{layers if kind.is_trained else f', up to {model.counts} tokens'}"
    data = f"{tokens:,} tokens of `{dataset.corpus_name}`, vocabulary {dataset.vocabulary_size:,}"
    link = f"\n\nPrefect run: [{origin.name}]({origin.url})" if origin and origin.url else ""
    return f"{shape}, trained on {data}; preset `{config.preset}`.{link}"


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


def send_rest(home: Home, run: RunRecord) -> None:
    """Send what could not be sent during training, and end the run."""
    if run.mlflow_run_id is None or not (run.folder / TRACKING).exists():
        return
    mlflow_run_id = run.mlflow_run_id
    RunTracker(home, run.folder, 0.0, lambda client, key: mlflow_run_id).flush()
    with best_effort("the run's end"), reaching_mlflow(home) as client:
        if client.get_run(mlflow_run_id).info.status != "FINISHED":
            client.set_terminated(mlflow_run_id)


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
    return known[0] if known else track_later(client, home, config, dataset, run)


def exists(client: "MlflowClient", mlflow_run_id: str) -> bool:
    with ignoring("RESOURCE_DOES_NOT_EXIST"):
        return client.get_run(mlflow_run_id).info.lifecycle_stage == "active"
    return False


def track_later(
    client: "MlflowClient", home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord
) -> str:
    """A new MLflow run with everything that training left; its id."""
    tracker = tracker_of(home, config, dataset, run.run_id, run.folder)
    tracker.send(client)
    mlflow_run_id = tracker.begin(client)
    client.set_terminated(mlflow_run_id)
    return mlflow_run_id


def log_scores(home: Home, run: RunRecord, evaluation: EvaluationRecord) -> None:
    """Log `<split>_<score>`, of whole splits, as metrics of the run; idempotent."""
    if run.mlflow_run_id is None:
        return
    scores = {name: value for split in evaluation.scores for name, value in split_scores(evaluation, split).items()}
    with best_effort("the scores"), reaching_mlflow(home) as client:
        from mlflow.entities import Metric

        found = client.get_run(run.mlflow_run_id).data
        known = found.metrics
        note = with_scores(found.tags.get(NOTE, ""), evaluation)
        if note != found.tags.get(NOTE):
            client.set_tag(run.mlflow_run_id, NOTE, note)
        now = round(time.time() * 1000)  # milliseconds
        new = [Metric(name, value, now, 0) for name, value in scores.items() if known.get(name) != value]
        if new:
            client.log_batch(run.mlflow_run_id, metrics=new)


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


def log_samples(home: Home, run: RunRecord, samples: SamplesRecord) -> None:
    """Log samples.md and samples.json as artifacts of the run."""
    if run.mlflow_run_id is None:
        return
    with best_effort("the samples"), reaching_mlflow(home) as client:
        client.log_text(run.mlflow_run_id, samples_page(samples.samples), "samples.md")
        listed = [sample.model_dump() for sample in samples.samples]
        client.log_dict(run.mlflow_run_id, {"samples": listed}, "samples.json")


def log_losses(home: Home, run: RunRecord) -> None:
    """Log the files of RUN/losses (Parquet, plots) that are missing or have another size in MLflow."""
    folder = run.folder / LOSSES
    if run.mlflow_run_id is None or not folder.exists():
        return
    with best_effort("the losses"), reaching_mlflow(home) as client:
        logged = {artifact.path: artifact.file_size for artifact in client.list_artifacts(run.mlflow_run_id, LOSSES)}
        for path in sorted([*folder.glob("*.parquet"), *folder.glob("*.png")]):
            if logged.get(f"{LOSSES}/{path.name}") != path.stat().st_size:
                client.log_artifact(run.mlflow_run_id, str(path), LOSSES)


def log_loss_curve(home: Home, run: RunRecord) -> Path | None:
    """Log the plot, drawing it in the run's folder if it is missing. None: there is no history."""
    history, picture = run.folder / HISTORY, run.folder / LOSS_CURVE
    if not history.exists():
        return None
    if not picture.exists():
        with atomic_file(picture) as partial:
            plot_loss_curve(history, partial)
    log_picture(home, run, picture)
    return picture


def small_loss_curve(run: RunRecord) -> Path | None:
    """The plot for a summary, drawn in the run's folder if it is missing. None: there is no history."""
    history, picture = run.folder / HISTORY, run.folder / SMALL_LOSS_CURVE
    if history.exists() and not picture.exists():
        with atomic_file(picture) as partial:
            plot_small_loss_curve(history, partial)
    return picture if picture.exists() else None


def log_picture(home: Home, run: RunRecord, picture: Path) -> None:
    """Log a plot from the run's folder as an artifact of the run, once."""
    if run.mlflow_run_id is None:
        return
    with best_effort(picture.name), reaching_mlflow(home) as client:
        logged = {artifact.path for artifact in client.list_artifacts(run.mlflow_run_id)}
        if picture.name not in logged:
            client.log_artifact(run.mlflow_run_id, str(picture))


def run_url(home: Home, run: RunRecord) -> str | None:
    """The run's address on the tracking server, or in `mlflow ui` over the home's SQLite file."""
    return tracked_run_url(home, run.mlflow_run_id)


def tracked_run_url(home: Home, mlflow_run_id: str | None) -> str | None:
    """None if MLflow has no such run, or is unavailable."""
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
