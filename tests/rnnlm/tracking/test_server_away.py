"""The tracking server is stopped in the middle of training and comes back: no step is lost, none doubled."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tracking.mlflow_runs import open_tracker
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.tracking.tracker import RunTracker
from rnnlm.training.samples import write_samples
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.tracking_server import TrackingServer


class Interposed:
    """The tracker, with something done before certain of its calls."""

    def __init__(self, tracker: RunTracker, before: dict[int, Callable[[], None]]) -> None:
        self.tracker, self.before, self.calls = tracker, before, 0

    @property
    def mlflow_run_id(self) -> str | None:
        return self.tracker.mlflow_run_id

    def __call__(self) -> None:
        self.calls += 1
        self.before.get(self.calls, lambda: None)()
        self.tracker()

    def flush(self) -> None:
        self.tracker.flush()


@pytest.mark.slow
def test_a_returning_server_receives_every_step_once(
    home: Home,
    tmp_path: Path,
    mlflow_template: Path,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    config = changed(toy_config, {"training.epochs": 5, "tracking.log_every_seconds": 0.001})
    server = TrackingServer(tmp_path / "server", mlflow_template)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    server.start()
    try:

        @contextmanager
        def open_(run_id: str) -> Iterator[Interposed]:
            with open_tracker(home, config, toy_dataset, run_id) as tracker:
                yield Interposed(tracker, {20: server.stop, 40: server.start})

        run = run_training(home, config, toy_dataset, open_, write_samples=write_samples)
        assert "training continues without tracking for now" in caplog.text
        assert run.mlflow_run_id is not None
        lines = [json.loads(line) for line in (run.folder / "history.jsonl").read_text().splitlines()]
        with reaching_mlflow(home) as client:
            tracked = client.get_run(run.mlflow_run_id)
            names = {name for line in lines for name in line["metrics"]}
            for name in names:
                got = [
                    (metric.timestamp, metric.step, metric.value)
                    for metric in client.get_metric_history(run.mlflow_run_id, name)
                ]
                measured = [line for line in lines if name in line["metrics"]]
                assert sorted(got) == sorted(
                    (line["time_milliseconds"], line["step"], line["metrics"][name]) for line in measured
                )
            pages = [artifact.path for artifact in client.list_artifacts(run.mlflow_run_id, "samples")]
        assert tracked.info.status == "FINISHED"
        assert len(pages) == config.training.validation.evaluations
    finally:
        server.stop()
