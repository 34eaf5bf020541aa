"""Registration works with a tracking server instead of the SQLite file. Artifacts are downloaded from the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.artifacts import list_artifacts

from rnnlm.config import PipelineConfig
from rnnlm.models.model_factory import load_model
from rnnlm.registry.model_lookup import list_models, model_folder
from rnnlm.registry.promotion_commands import promote_by_hand, roll_back
from rnnlm.registry.registration import register_model
from rnnlm.registry.registry_version import read_version
from rnnlm.registry.version_tags import Candidate
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.tracking.mlflow_addresses import run_url
from rnnlm.tracking.mlflow_runs import open_tracker
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.rnnlm.registry.contest import Contest
from tests.tracking_server import TrackingServer


@pytest.fixture
def server(tmp_path: Path, mlflow_template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a real MLflow server on the loopback interface."""
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
    candidate = Candidate(toy_config, toy_dataset, run, toy_evaluation, toy_samples)
    registered = register_model(home, candidate)
    assert [version.aliases for version in list_models(home)] == [("champion",)]
    folder = model_folder(home, registered.uri)
    assert folder.is_relative_to(home.root)
    load_model(folder)
    assert model_folder(home, registered.uri) == folder  # The artifacts are downloaded only once.
    url = run_url(home, run.mlflow_run_id)
    assert url is not None
    assert url.startswith(f"{server}/#/experiments/")
    # Registering the model again changes nothing, because the server stores that it is champion.
    again = register_model(home, candidate, force=True)
    assert (again.version, again.alias) == (2, "challenger")
    promote_by_hand(home, registered.name, "2")
    assert roll_back(home, registered.name).version == 1
    assert [version.aliases for version in list_models(home)] == [(), ("champion",)]
    assert not home.mlflow_database.exists()


@pytest.mark.slow
def test_the_evidence_of_a_comparison_travels_through_a_server(contest: Contest, server: str) -> None:
    contest.register("poor")
    better = contest.register("good")
    assert better.alias == "champion"
    assert "training text is unknown" not in better.reason
    with reaching_mlflow(contest.home) as client:
        model = read_version(client, better.name, 2).facts["logged_model_id"]
        uri = client.get_logged_model(model).artifact_location
    kept = {Path(found.path).name for found in list_artifacts(artifact_uri=f"{uri}/evidence", tracking_uri=server)}
    parquet = {"held_out_lines.parquet", "losses.parquet", "training_documents.parquet"}
    assert kept == {"characters.json", "configuration.json"} | parquet
