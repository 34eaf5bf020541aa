"""The results that are logged to a training run's MLflow run: scores, samples, losses, plots and the decision.

The decision is the registry's decision about the trained model.
"""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.evaluation.score_tables import counts_sentence
from rnnlm.generation.sample_page import samples_page
from rnnlm.storage.home import Home, atomic_file
from rnnlm.storage.records import LOSSES, DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, LoggedRecord, SamplesRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.tracking.loss_curve import plot_loss_curve, plot_small_loss_curve
from rnnlm.tracking.mlflow_addresses import run_address, run_list_address
from rnnlm.tracking.mlflow_runs import CORPUS, DECISION, NOTE, SCORES_END, split_digest
from rnnlm.tracking.mlflow_store import (
    best_effort,
    ignoring,
    reaching_mlflow,
)
from rnnlm.tracking.tracker import RunTracker

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# The prefix of metric names for each split.
METRIC_PREFIXES = {"train": "train", "valid": "validation", "test": "test"}
LOSS_CURVE, SMALL_LOSS_CURVE = "loss_curve.png", "loss_curve_small.png"
LOSS_CURVES = {LOSS_CURVE: plot_loss_curve, SMALL_LOSS_CURVE: plot_small_loss_curve}


def log_run_results(
    home: Home, run: RunRecord, evaluation: EvaluationRecord, samples: SamplesRecord, pictures: Sequence[Path] = ()
) -> LoggedRecord:
    """Log a run's scores, samples, losses and plots, and all measurements that could not be sent during training.

    The call may be repeated. If MLflow is unavailable, the loss curves are still drawn in the run's folder, and run_url
    is None.
    """
    curves = {name: drawn(run, name, draw) for name, draw in LOSS_CURVES.items()}
    mlflow_run_id, url = run.mlflow_run_id, None
    if mlflow_run_id is not None:
        with best_effort("the results"), reaching_mlflow(home) as client:
            if RunFolder(run.folder).tracking_path.exists():
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
    """Return a plot in the run's folder, which is drawn if it is missing. Return None if the run has no history."""
    history, picture = RunFolder(run.folder).history, run.folder / name
    if history.exists() and not picture.exists():
        with atomic_file(picture) as partial:
            draw(history, partial)
    return picture if picture.exists() else None


def log_scores(client: "MlflowClient", run: "Run", evaluation: EvaluationRecord) -> None:
    """Log the scores of whole splits as metrics `<split>_<score>`, and the test scores in the run's description."""
    from mlflow.entities import Metric

    note = with_scores(run.data.tags.get(NOTE, ""), evaluation)
    if note != run.data.tags.get(NOTE):
        client.set_tag(run.info.run_id, NOTE, note)
    now = round(time.time() * 1000)  # The time of the metrics in milliseconds since 1970.
    scores = {name: value for split in evaluation.scores for name, value in split_scores(evaluation, split).items()}
    known = run.data.metrics
    new = [Metric(name, value, now, 0) for name, value in scores.items() if known.get(name) != value]
    client.log_batch(run.info.run_id, metrics=new)


def log_decision(client: "MlflowClient", mlflow_run_id: str, corpus_name: str, decision: str) -> None:
    """Show the registry's decision in MLflow's list of runs, unless the run was deleted in MLflow."""
    with ignoring("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
        for tag, value in ((CORPUS, corpus_name), (DECISION, decision)):
            client.set_tag(mlflow_run_id, tag, value)


def log_files(client: "MlflowClient", mlflow_run_id: str, files: Sequence[Path], folder: str | None = None) -> None:
    """Log files as artifacts of the run, unless MLflow already has files with the same names and sizes.

    `folder` is a folder in the run's artifacts.
    """
    listed = client.list_artifacts(mlflow_run_id, folder)
    sizes = {Path(artifact.path).name: artifact.file_size for artifact in listed}
    for path in files:
        if sizes.get(path.name) != path.stat().st_size:
            client.log_artifact(mlflow_run_id, str(path), folder)


def split_scores(evaluation: EvaluationRecord, split: str) -> dict[str, float]:
    """Return the value of each metric of one split."""
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
    """Log the scores of each split for the logged model and the dataset, by which MLflow can rank models."""
    from mlflow.entities import Metric

    now = round(time.time() * 1000)  # The time of the metrics in milliseconds since 1970.
    metrics = [
        Metric(name, value, now, 0, model_id, dataset.corpus_name, split_digest(dataset, split))
        for split in evaluation.scores
        for name, value in split_scores(evaluation, split).items()
    ]
    client.log_batch(mlflow_run_id, metrics=metrics)


def with_scores(note: str, evaluation: EvaluationRecord) -> str:
    """Return the run's description with a sentence about the scores at its beginning. An older sentence is replaced."""
    test = evaluation.scores["test"]
    counted = f"; {beside}" if (beside := counts_sentence(test)) else ""
    sentence = (
        f"**Test perplexity {test.perplexity:.2f}, {test.bits_per_byte:.3f} bits per byte** "
        f"(unigram baseline {test.unigram_perplexity:.2f}{counted})."
    )
    _, _, plain = note.rpartition(SCORES_END)
    return f"{sentence}{SCORES_END}{plain}"
