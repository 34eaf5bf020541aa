from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig, ProbesConfig
from rnnlm.evaluation.surprise.surprise_measurement import surprise_of_run
from rnnlm.home import Home
from rnnlm.reports.probe_page import gradient_report, positions_report
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.tracking.mlflow_runs import open_tracker
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tasks.evaluation import (
    log_results,
    probe_gradient_flow,
    probe_positions,
)


@pytest.mark.long
def test_a_runs_gradients_are_measured_once_and_reported(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    record = probe_gradient_flow.fn(toy_dataset, toy_run, ProbesConfig())
    assert not record.skipped
    assert probe_gradient_flow.fn(toy_dataset, toy_run, ProbesConfig()).skipped
    assert not probe_gradient_flow.fn(toy_dataset, toy_run, ProbesConfig(), force=True).skipped
    report = gradient_report(record)
    assert "data:image/png;base64,iVBOR" in report
    assert "| layer | 1 back | 5 back |" in report  # sentences of ten tokens go no further back than nine
    assert f"| 1 | {record.norms[0][1] / record.norms[0][0]:.2g} |" in report


def test_a_runs_right_guesses_are_measured_once_and_reported(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    config = ProbesConfig(given_tokens=3)
    record = probe_positions.fn(toy_dataset, toy_run, config)
    assert not record.skipped
    assert probe_positions.fn(toy_dataset, toy_run, config).skipped
    report = positions_report(record)
    assert "data:image/png;base64,iVBOR" in report
    assert "| 1 | 40 | 100.0% | given |" in report  # every line begins with "the"
    assert "| 4 | 40 | 100.0% | 100.0% |" in report  # its fourth word is "the", too


@pytest.mark.long
def test_results_are_in_the_run_and_its_address_is_returned(
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
    picture = toy_run.folder / "gradient_flow.png"
    picture.write_bytes(b"a picture")
    for _ in range(2):
        logged = log_results.fn(run, toy_evaluation, toy_samples, (picture,))
    assert logged.loss_curve == toy_run.folder / "loss_curve.png"
    assert logged.run_url is not None
    assert logged.run_url.endswith(f"/runs/{tracker.mlflow_run_id}?workflowType=machine_learning")
    assert logged.run_list_url is not None
    assert logged.run_list_url.endswith("/runs?viewStateShareKey=rnnlm&workflowType=machine_learning")
    assert logged.small_loss_curve is not None
    assert logged.small_loss_curve.read_bytes().startswith(b"\x89PNG")
    assert logged.small_loss_curve.stat().st_size < 40_000  # Prefect's database gets one a night
    with reaching_mlflow(tracked_home) as client:
        metrics = client.get_run(tracker.mlflow_run_id).data.metrics
        names = [artifact.path for artifact in client.list_artifacts(tracker.mlflow_run_id)]
        losses = {Path(artifact.path).name for artifact in client.list_artifacts(tracker.mlflow_run_id, "losses")}
    assert metrics["test_perplexity"] == toy_evaluation.scores["test"].perplexity
    assert sorted(names) == ["gradient_flow.png", "loss_curve.png", "losses", "samples", "samples.json", "samples.md"]
    assert losses == {"tokens.parquet", "sequences.parquet", "loss_by_position.png", "loss_by_frequency.png"}


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
