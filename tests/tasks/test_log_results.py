"""The task puts a run's results into MLflow, and does without MLflow when it must."""

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.surprise.surprise_measurement import surprise_of_run
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord, SamplesRecord
from rnnlm.tracking.mlflow_runs import open_tracker
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tasks.log_results import log_results


@pytest.mark.long
def test_results_are_in_the_run_and_its_address_is_returned(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    with open_tracker(tracked_home, toy_config, toy_dataset, toy_run.run_id) as tracker:
        pass
    run = toy_run.model_copy(update={"mlflow_run_id": tracker.mlflow_run_id})
    picture = toy_run.folder / "gradient_flow.png"
    picture.write_bytes(b"a picture")
    for _ in range(2):
        logged = log_results.fn(run, toy_evaluation, toy_samples, (picture,))
    assert logged.loss_curve == toy_run.folder / "loss_curve.png"
    assert logged.run_url is not None
    assert logged.run_url.endswith(f"/runs/{tracker.mlflow_run_id}?workflowType=machine_learning")
    assert logged.small_loss_curve is not None
    assert logged.small_loss_curve.read_bytes().startswith(b"\x89PNG")
    assert logged.small_loss_curve.stat().st_size < 40_000  # Prefect's database gets one a night
    with reaching_mlflow(tracked_home) as client:
        metrics = client.get_run(tracker.mlflow_run_id).data.metrics
        names = [artifact.path for artifact in client.list_artifacts(tracker.mlflow_run_id)]
    assert metrics["test_perplexity"] == toy_evaluation.scores["test"].perplexity
    assert sorted(names) == ["gradient_flow.png", "loss_curve.png", "samples", "samples.json", "samples.md"]


@pytest.mark.long
def test_the_losses_are_artifacts_of_the_run(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    surprise_of_run(tracked_home, toy_dataset, toy_run, toy_config.evaluation)
    with open_tracker(tracked_home, toy_config, toy_dataset, toy_run.run_id) as tracker:
        pass
    run = toy_run.model_copy(update={"mlflow_run_id": tracker.mlflow_run_id})
    log_results.fn(run, toy_evaluation, toy_samples)
    with reaching_mlflow(tracked_home) as client:
        logged = {artifact.path for artifact in client.list_artifacts(tracker.mlflow_run_id, "losses")}
    names = ("tokens.parquet", "sequences.parquet", "loss_by_position.png", "loss_by_frequency.png")
    assert logged == {f"losses/{name}" for name in names}


def test_mlflow_away_leaves_the_loss_curve(
    home: Home,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # discard: nobody listens
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = toy_run.model_copy(update={"mlflow_run_id": "0" * 32})
    logged = log_results.fn(run, toy_evaluation, toy_samples)
    assert logged.run_url is None
    assert logged.loss_curve is not None
    assert logged.loss_curve.exists()
