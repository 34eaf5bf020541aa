"""The same with a tracking server in place of the SQLite file: artifacts come back through it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.models.building import load_model
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord, SamplesRecord
from rnnlm.registry.lookup import list_models, model_folder
from rnnlm.registry.registering import register_model
from rnnlm.tracking.runs import open_tracker, run_url
from tests.tracking_server import TrackingServer


@pytest.fixture
def server(tmp_path: Path, mlflow_template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a real MLflow server on loopback."""
    server = TrackingServer(tmp_path / "server", mlflow_template)
    server.start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    yield server.address
    server.stop()


@pytest.mark.slow
def test_a_run_is_tracked_registered_and_found_through_a_server(
    home: Home,
    server: str,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> None:
    with open_tracker(home, toy_config, toy_dataset, toy_run.run_id) as tracker:
        pass
    run = toy_run.model_copy(update={"mlflow_run_id": tracker.mlflow_run_id})
    registered = register_model(home, toy_config, toy_dataset, run, toy_evaluation, toy_samples)
    assert [version.aliases for version in list_models(home)] == [("champion",)]
    folder = model_folder(home, registered.uri)
    assert folder.is_relative_to(home.root)
    load_model(folder)
    assert model_folder(home, registered.uri) == folder  # fetched once
    url = run_url(home, run)
    assert url is not None
    assert url.startswith(f"{server}/#/experiments/")
    assert not home.mlflow_database.exists()
