from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig, result_settings
from rnnlm.home import Home
from rnnlm.registry.model_lookup import model_folder
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import is_complete
from rnnlm.tracking.mlflow_store import reaching_mlflow
from rnnlm.training import time_budget
from tasks.training import choose_network, train_model
from tests.configs import changed
from tests.registrar import Registrar


def test_size_and_length_are_chosen_for_the_minutes(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_budget, "MEASURED_SECONDS", 0.02)
    training = toy_config.training.model_copy(update={"epochs": None, "minutes": 0.01})
    chosen = choose_network.fn(toy_config.model_copy(update={"training": training}), toy_dataset)
    assert chosen.training.epochs is not None
    assert chosen.training.maximum_tokens is not None
    assert chosen.model == toy_config.model  # whose size is given


def test_a_length_that_is_given_stays(home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord) -> None:
    chosen = choose_network.fn(toy_config, toy_dataset)
    assert result_settings(chosen.training) == result_settings(toy_config.training)
    assert chosen.training.precision == "float32"  # shown in MLflow in place of null


@pytest.mark.long
def test_a_run_is_trained_and_tracked(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    config = changed(toy_config, {"training.seed": 9})
    run = train_model.fn(config, toy_dataset)
    assert is_complete(run.folder)
    assert run.mlflow_run_id
    assert model_folder(tracked_home, str(run.folder)) == run.model_folder
    assert train_model.fn(config, toy_dataset).skipped


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
    monkeypatch.chdir(tmp_path)  # MLflow puts that store's artifacts there
    for run in (train_model.fn(config, toy_dataset), train_model.fn(config, toy_dataset)):
        assert run.skipped
        with reaching_mlflow(tracked_home) as client:
            [other] = client.search_runs([client.get_experiment_by_name(config.tracking.experiment).experiment_id])
        assert other.info.run_id == run.mlflow_run_id != first.mlflow_run_id
        assert other.info.status == "FINISHED"
        assert (other.data.metrics, other.data.params) == (sent.data.metrics, sent.data.params)
        assert "sampled_validation_perplexity" in other.data.metrics


@pytest.mark.long
def test_a_warm_started_run_is_found_the_next_night(register: Registrar) -> None:
    champion = register()
    config = changed(register.config, {"training.start_from": "champion", "training.warm_start.learning_rate": 1e-3})
    run = train_model.fn(config, register.dataset)
    assert run.started_from is not None
    assert (run.started_from.name, run.started_from.version) == (champion.name, champion.version)
    assert run.best_validation_perplexity < register.run.best_validation_perplexity
    assert train_model.fn(config, register.dataset) == run.model_copy(
        update={"skipped": True, "seconds": pytest.approx(0, abs=60)}
    )
