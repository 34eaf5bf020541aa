"""A comparison is one MLflow run with all that is known of it, be it that MLflow was away at first."""

import json
from pathlib import Path

import pytest

from rnnlm.config import TrackingConfig, TrainingConfig
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tasks.compare_abilities import compare_abilities
from tasks.compare_echo import compare_echo
from tasks.compare_gradients import compare_gradients
from tasks.log_comparison import log_comparison
from tests.tasks.comparisons import ABILITIES, ECHO, GRADIENTS, PNG, artifacts, tracked


@pytest.mark.long
def test_settings_are_parameters_and_a_networks_figures_a_metric_by_distance(
    tracked_home: Home, toy_dataset: DatasetRecord, tmp_path: Path
) -> None:
    found = compare_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS)
    url = log_comparison.fn(found, TrackingConfig(experiment="probes"))
    again = compare_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS)
    assert log_comparison.fn(again, TrackingConfig(experiment="probes")) == url  # one run, however often
    ((parameters, metrics),) = tracked(tracked_home, "probes")
    assert parameters["hidden_size"] == "4"
    assert parameters["dataset_id"] == toy_dataset.dataset_id
    assert len(metrics) == 8  # tanh and relu, four starts each
    norms = found.curves[0].norms[0]
    assert metrics["relative_norm/tanh_xavier"] == [(k, pytest.approx(norms[k] / norms[0])) for k in range(6)]
    assert url is not None
    logged = artifacts(tracked_home, url, tmp_path)
    assert logged[found.picture.name].startswith(PNG)
    assert len(json.loads(logged[found.figures.name])["value"]["curves"]) == 8


@pytest.mark.long
def test_every_network_has_a_name_that_mlflow_takes(tracked_home: Home, toy_dataset: DatasetRecord) -> None:
    config = GRADIENTS.model_copy(update={"factor": 2e6, "trained_steps": 1})
    assert log_comparison.fn(compare_gradients.fn(toy_dataset, TrainingConfig(), config), TrackingConfig()) is not None
    ((_, metrics),) = tracked(tracked_home)
    assert "relative_norm/tanh_identity-x2e06_after-1-steps" in metrics


@pytest.mark.long
def test_abilities_are_a_metric_by_length_for_each_network_and_task(tracked_home: Home, tmp_path: Path) -> None:
    found = compare_abilities.fn(ABILITIES)
    url = log_comparison.fn(found, TrackingConfig())
    ((parameters, metrics),) = tracked(tracked_home)
    assert parameters["kinds"] == '["elman", "transformer"]'
    assert len(metrics) == 6  # three networks, two tasks
    first, second = (
        score.accuracies for score in found.scores if (score.network, score.task) == ("elman-diagonal", "echo")
    )
    means = [pytest.approx((one + other) / 2) for one, other in zip(first, second, strict=True)]
    assert metrics["ability/echo/elman-diagonal"] == list(zip((6, 12, 18), means, strict=True))
    assert url is not None
    assert set(artifacts(tracked_home, url, tmp_path)) == {found.picture.name, found.figures.name, found.table.name}


def test_a_run_that_a_kill_left_unfinished_is_gone_on_with(tracked_home: Home, tmp_path: Path) -> None:
    found = compare_echo.fn(ECHO)
    url = log_comparison.fn(found, TrackingConfig())
    assert url is not None
    with reaching_mlflow(tracked_home) as client:
        client.update_run(url.rpartition("/")[2].partition("?")[0], status="RUNNING")
    assert log_comparison.fn(compare_echo.fn(ECHO), TrackingConfig()) == url
    ((_, metrics),) = tracked(tracked_home)
    accuracies = {score.distance: score.accuracy for score in found.scores if score.initialization == "xavier"}
    assert metrics["echo_accuracy/tanh_xavier"] == sorted(accuracies.items())  # each once
    assert set(artifacts(tracked_home, url, tmp_path)) == {found.picture.name, found.figures.name}


@pytest.mark.long
def test_what_is_measured_anew_is_another_run(tracked_home: Home) -> None:
    first = log_comparison.fn(compare_echo.fn(ECHO), TrackingConfig())
    second = log_comparison.fn(compare_echo.fn(ECHO, force=True), TrackingConfig())
    assert first != second
    assert log_comparison.fn(compare_echo.fn(ECHO), TrackingConfig()) == second
    assert len(tracked(tracked_home)) == 2


def test_with_mlflow_away_it_waits_for_the_next_time(
    tracked_home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = compare_echo.fn(ECHO)
    with monkeypatch.context() as away:
        away.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # discard: nobody listens
        away.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        assert log_comparison.fn(found, TrackingConfig()) is None
    assert f"{found.picture.name} could not be logged to MLflow" in caplog.text
    assert tracked(tracked_home) == []
    assert log_comparison.fn(compare_echo.fn(ECHO), TrackingConfig()) is not None
    assert len(tracked(tracked_home)) == 1
