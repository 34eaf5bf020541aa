"""An MLflow run contains the settings, data, measurements and state of a training run.

If MLflow is unavailable, training continues.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord, Sample
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.tracking.mlflow_addresses import run_address, run_url, ui_address, ui_answers
from rnnlm.tracking.mlflow_runs import open_tracker, parameters
from rnnlm.tracking.mlflow_store import embedded_uri, reaching_mlflow
from rnnlm.tracking.run_results import log_run_results
from rnnlm.tracking.tracker import RunTracker
from rnnlm.training.history import History, Measurement
from tests.configs import plain_config
from tests.split_scores import split_score_of

CONFIG = plain_config({"model.hidden_size": 16, "generation.prompts": ["a", "b"]})
RUN_ID = "0123456789abcdef"
SAMPLES_RECORD = SamplesRecord(samples=(Sample(prompt="a", text="b", tokens=1),))


def take_mlflow_away(monkeypatch: pytest.MonkeyPatch) -> None:
    # No server listens on port 9 (discard).
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@contextmanager
def tracked(home: Home) -> Iterator[tuple[RunTracker, Callable[[int, dict[str, float]], None]]]:
    """Yield the tracker of a run, and a function that writes measurements to the run's folder and calls the tracker."""
    folder = home.runs / RUN_ID
    folder.mkdir(parents=True, exist_ok=True)
    with open_tracker(home, CONFIG, dataset_of(home), RUN_ID) as tracker, History(RunFolder(folder).history) as history:

        def measure(step: int, metrics: dict[str, float]) -> None:
            history.write(Measurement(step, metrics))
            tracker()

        yield tracker, measure


def sent(home: Home, tracker: RunTracker, name: str = "train_loss_nats") -> list[tuple[int, float]]:
    """Return the steps and values of a metric in MLflow."""
    with reaching_mlflow(home) as client:
        return [(metric.step, metric.value) for metric in client.get_metric_history(tracker.mlflow_run_id, name)]


def dataset_of(home: Home) -> DatasetRecord:
    return DatasetRecord(
        dataset_id="d" * 64,
        folder=home.datasets / "d",
        corpus_name="toy",
        corpus_digest="c" * 64,
        mode="sentence",
        vocabulary_size=20,
        predicted_tokens={"train": 100, "valid": 10, "test": 10},
        sequence_counts={"train": 10, "valid": 1, "test": 1},
    )


def run_of(home: Home, mlflow_run_id: str | None, history: bool = True) -> RunRecord:
    folder = home.runs / RUN_ID
    folder.mkdir(parents=True, exist_ok=True)
    if history:
        RunFolder(folder).history.write_text('{"step": 1, "metrics": {"train_loss_nats": 4.0, "trained_tokens": 10}}\n')
    return RunRecord(
        run_id=RUN_ID,
        folder=folder,
        dataset_id="d" * 64,
        mlflow_run_id=mlflow_run_id,
        trained_tokens=20,
        best_validation_perplexity=33.1,
    )


def evaluation_of(perplexity: float) -> EvaluationRecord:
    score = split_score_of(
        perplexity, tokens=10, nll_nats_per_token=math.log(perplexity), uniform_perplexity=20.0, unigram_perplexity=12.0
    )
    return EvaluationRecord(scores={"test": score})


@pytest.mark.long
def test_a_run_carries_configuration_dataset_and_metrics(tracked_home: Home) -> None:
    with tracked(tracked_home) as (tracker, measure):
        measure(1, {"train_loss_nats": 4.0})
        measure(2, {"train_loss_nats": 3.0, "gradient_norm": math.inf})
    with reaching_mlflow(tracked_home) as client:
        run = client.get_run(tracker.mlflow_run_id)
    assert run.info.status == "FINISHED"
    assert re.fullmatch(r"toy · default · \d{1,2} \w{3} \d\d:\d\d", run.info.run_name)
    # MLflow does not show its own tags, which begin with `mlflow.`.
    visible = [name for name in run.data.tags if not name.startswith("mlflow.")]
    assert len(visible) <= 10
    assert run.data.tags["mlflow.source.name"] == "rnnlm"
    assert run.data.tags["mlflow.user"]
    assert "preset `default`" in run.data.tags["mlflow.note.content"]
    assert run.data.params == parameters(CONFIG)  # There are more parameters than MLflow accepts in a single call.
    assert run.data.params["generation.prompts"] == '["a", "b"]'
    assert run.data.tags["rnnlm.run_id"] == RUN_ID
    assert sent(tracked_home, tracker) == [(1, 4.0), (2, 3.0)]
    assert "gradient_norm" not in run.data.metrics  # An infinite value is not logged.
    used = {one.tags[0].value: (one.dataset.name, one.dataset.digest) for one in run.inputs.dataset_inputs}
    assert used == {
        "training": ("toy", "d" * 36),
        "validation": ("toy", "d" * 30 + "-valid"),
        "testing": ("toy", "d" * 31 + "-test"),
    }


def test_validation_during_training_is_called_sampled(tracked_home: Home) -> None:
    with tracked(tracked_home) as (tracker, measure):
        measure(1, {"validation_perplexity": 111.96})
    scores = {"valid": evaluation_of(110.06).scores["test"], "test": evaluation_of(100.0).scores["test"]}
    log_run_results(
        tracked_home, run_of(tracked_home, tracker.mlflow_run_id), EvaluationRecord(scores=scores), SAMPLES_RECORD
    )
    with reaching_mlflow(tracked_home) as client:
        metrics = client.get_run(tracker.mlflow_run_id).data.metrics
    assert metrics["sampled_validation_perplexity"] == 111.96
    assert metrics["validation_perplexity"] == 110.06
    assert "valid_perplexity" not in metrics


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("the loss is not a number"), "FAILED"), (KeyboardInterrupt(), "KILLED")]
)
def test_a_run_ends_as_its_training_ended(tracked_home: Home, error: BaseException, status: str) -> None:
    with pytest.raises(type(error)), tracked(tracked_home) as (tracker, measure):
        measure(1, {"train_loss_nats": 4.0})
        raise error
    with reaching_mlflow(tracked_home) as client:
        run = client.get_run(tracker.mlflow_run_id)
    assert run.info.status == status
    assert run.data.metrics == {"train_loss_nats": 4.0}  # The measurements from before the error are in MLflow.


def test_training_continues_without_mlflow(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take_mlflow_away(monkeypatch)
    with caplog.at_level(logging.WARNING, "rnnlm"), tracked(home) as (tracker, measure):
        for step in range(3):
            measure(step, {"train_loss_nats": 1.0})
    assert tracker.mlflow_run_id is None
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "training continues without MLflow for now",
        f"3 metrics could not be logged to MLflow; they are in {RunFolder(home.runs / RUN_ID).history}",
    ]
    for mlflow_run_id in (None, "0" * 32):
        logged = log_run_results(home, run_of(home, mlflow_run_id), evaluation_of(9.0), SAMPLES_RECORD)
        assert (logged.run_url, logged.loss_curve) == (None, home.runs / RUN_ID / "loss_curve.png")


@pytest.mark.long
def test_metrics_wait_for_a_store_that_comes_back(
    tracked_home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with tracked(tracked_home) as (tracker, measure):
        take_mlflow_away(monkeypatch)
        tracker.next_flush = 0.0
        measure(1, {"train_loss_nats": 4.0})
        assert "training continues" in caplog.text
        monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(tracked_home))
        measure(2, {"train_loss_nats": 3.0})
    assert sent(tracked_home, tracker) == [(1, 4.0), (2, 3.0)]


def test_a_store_that_comes_after_training_began_gets_everything(
    tracked_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_mlflow_away(monkeypatch)
    with tracked(tracked_home) as (tracker, measure):
        measure(1, {"train_loss_nats": 4.0})
        monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(tracked_home))
        measure(2, {"train_loss_nats": 3.0})
        assert tracker.mlflow_run_id is None
        tracker.flush()
        assert tracker.mlflow_run_id is not None
    assert sent(tracked_home, tracker) == [(1, 4.0), (2, 3.0)]


def test_a_resumed_run_continues_its_mlflow_run(tracked_home: Home) -> None:
    for steps in ((1, 2), (2, 3)):  # Repeat step 2, as after a restart.
        with tracked(tracked_home) as (tracker, measure):
            with reaching_mlflow(tracked_home) as client:
                assert client.get_run(tracker.mlflow_run_id).info.status == "RUNNING"
            for step in steps:
                measure(step, {"train_loss_nats": float(step)})
    with reaching_mlflow(tracked_home) as client:
        experiment = client.get_experiment_by_name("rnnlm")
        assert experiment is not None
        [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.run_id, run.info.status) == (tracker.mlflow_run_id, "FINISHED")
    assert sent(tracked_home, tracker) == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_kill_between_sending_and_recording_it_doubles_nothing(tracked_home: Home) -> None:
    with tracked(tracked_home) as (tracker, measure):
        before = RunFolder(tracked_home.runs / RUN_ID).tracking_path.read_bytes()
        for step in range(5):
            measure(step, {"train_loss_nats": float(step), "gradient_norm": 1.0})
        tracker.flush()
        # The file would have this content if the process were killed just after its call to MLflow.
        RunFolder(tracked_home.runs / RUN_ID).tracking_path.write_bytes(before)
    with tracked(tracked_home) as (again, measure):
        assert again.mlflow_run_id == tracker.mlflow_run_id
        measure(5, {"train_loss_nats": 5.0})
    assert sent(tracked_home, again) == [(step, float(step)) for step in range(6)]
    assert sent(tracked_home, again, "gradient_norm") == [(step, 1.0) for step in range(5)]


def test_a_kill_after_creating_the_mlflow_run_creates_no_second(tracked_home: Home) -> None:
    with tracked(tracked_home) as (tracker, _):
        path = RunFolder(tracked_home.runs / RUN_ID).tracking_path
        # The key is written before the MLflow run is created, so a killed process may leave only the key.
        path.write_text(json.dumps({"key": tracker.key}))
        with tracked(tracked_home) as (again, __):
            assert again.mlflow_run_id == tracker.mlflow_run_id


@pytest.mark.long
def test_unsent_metrics_are_sent_with_the_results(tracked_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with tracked(tracked_home) as (tracker, measure):
        measure(1, {"train_loss_nats": 4.0})
        tracker.flush()
        take_mlflow_away(monkeypatch)  # Make MLflow unavailable before the run ends.
        measure(2, {"train_loss_nats": 3.0})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(tracked_home))
    run = run_of(tracked_home, tracker.mlflow_run_id, history=False)
    for _ in range(2):
        log_run_results(tracked_home, run, evaluation_of(9.0), SAMPLES_RECORD)
    assert sent(tracked_home, tracker) == [(1, 4.0), (2, 3.0)]
    with reaching_mlflow(tracked_home) as client:
        assert client.get_run(tracker.mlflow_run_id).info.status == "FINISHED"


@pytest.mark.long
def test_results_are_logged_once_however_often_they_are_sent(tracked_home: Home) -> None:
    with tracked(tracked_home) as (tracker, _):
        pass
    run = run_of(tracked_home, tracker.mlflow_run_id)
    for __ in range(2):
        url = log_run_results(tracked_home, run, evaluation_of(9.0), SAMPLES_RECORD).run_url
    with reaching_mlflow(tracked_home) as client:
        history = client.get_metric_history(run.mlflow_run_id, "test_perplexity")
        names = {artifact.path for artifact in client.list_artifacts(run.mlflow_run_id)}
        experiment = client.get_run(run.mlflow_run_id).info.experiment_id
    assert [metric.value for metric in history] == [9.0]
    assert names == {"samples.md", "samples.json", "loss_curve.png"}
    page = f"http://127.0.0.1:5000/#/experiments/{experiment}/runs/{run.mlflow_run_id}"
    # Without this parameter, MLflow would open the page for chat models.
    assert url == f"{page}?workflowType=machine_learning"
    assert run_url(tracked_home, run.mlflow_run_id) == url


def test_the_link_follows_the_address_that_mlflow_is_shown_at(
    tracked_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_PORT", "5055")  # Set an environment variable that `mlflow ui` also reads.
    assert run_address(tracked_home, "1", "a").startswith("http://127.0.0.1:5055/#/experiments/1/")
    monkeypatch.setenv("MLFLOW_HOST", "mlflow.example.org")
    assert run_address(tracked_home, "1", "a").startswith("http://mlflow.example.org:5055/#/")
    # A browser outside the cluster cannot resolve this host name.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    assert run_address(tracked_home, "1", "a").startswith("http://mlflow:5000/#/")
    monkeypatch.setenv("RNNLM_MLFLOW_UI_URL", "https://mlflow.example.org/")
    assert run_address(tracked_home, "1", "a").startswith("https://mlflow.example.org/#/experiments/1/")


def test_a_named_server_is_linked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNLM_MLFLOW_UI_URL", "https://mlflow.example.org/")
    assert ui_answers(home)
    assert ui_address(home) == "https://mlflow.example.org"
