from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training import training_speed
from tasks.training import choose_network, train_model
from tests.configs import changed
from tests.registrar import Registrar


def test_minutes_choose_what_is_open_and_nothing_else(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    sized = choose_network.fn(toy_config, toy_dataset)  # Without training.minutes, the configured size is kept.
    assert (sized.model.hidden_size, sized.training.epochs) == (16, 1)
    assert not home.starts.exists()
    monkeypatch.setattr(training_speed, "MEASURED_SECONDS", 0.02)
    minutes = {"training.minutes": 0.01, "training.epochs": None, "model.hidden_size": 16}
    config = changed(toy_config, minutes)
    chosen = choose_network.fn(config, toy_dataset)
    epochs, tokens = chosen.training.epochs, chosen.training.maximum_tokens
    assert epochs is not None
    assert 0 < tokens <= 3000 * epochs  # The training split has 300 lines of 10 tokens.
    assert chosen.model.hidden_size == 16
    # A second call uses the stored speed, so it chooses the same size.
    assert choose_network.fn(config, toy_dataset) == chosen


@pytest.mark.long
def test_a_finished_run_is_tracked_once_in_a_store_that_lacks_it(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = changed(toy_config, {"training.seed": 10})
    first = train_model.fn(config, toy_dataset)
    with reaching_mlflow(tracked_home) as client:
        sent = client.get_run(first.mlflow_run_id)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    monkeypatch.chdir(tmp_path)  # MLflow stores the artifacts of a SQLite store below the current folder.
    for run in (train_model.fn(config, toy_dataset), train_model.fn(config, toy_dataset)):
        assert run.skipped
        with reaching_mlflow(tracked_home) as client:
            [other] = client.search_runs([client.get_experiment_by_name(config.tracking.experiment).experiment_id])
        assert other.info.run_id == run.mlflow_run_id != first.mlflow_run_id
        assert other.info.status == "FINISHED"
        assert (other.data.metrics, other.data.params) == (sent.data.metrics, sent.data.params)
        assert "sampled_validation_perplexity" in other.data.metrics


@pytest.mark.long
def test_a_warm_started_run_is_found_the_next_night(registered: Registrar) -> None:
    champion = registered()
    config = changed(registered.config, {"training.start_from": "champion", "training.warm_start.learning_rate": 1e-3})
    run = train_model.fn(config, registered.dataset)
    assert run.started_from is not None
    assert (run.started_from.name, run.started_from.version) == (champion.name, champion.version)
    assert run.best_validation_perplexity < registered.run.best_validation_perplexity
    assert train_model.fn(config, registered.dataset) == run.model_copy(
        update={"skipped": True, "seconds": pytest.approx(0, abs=60)}
    )
