import pytest

from rnnlm.config import PipelineConfig, result_settings
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.training import time_budget
from tasks.choose_size import choose_size


def test_size_and_length_are_chosen_for_the_minutes(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_budget, "MEASURED_SECONDS", 0.02)
    training = toy_config.training.model_copy(update={"epochs": None, "minutes": 0.01})
    chosen = choose_size.fn(toy_config.model_copy(update={"training": training}), toy_dataset)
    assert chosen.training.epochs is not None
    assert chosen.training.maximum_tokens is not None
    assert chosen.model == toy_config.model  # whose size is given


def test_a_length_that_is_given_stays(home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord) -> None:
    chosen = choose_size.fn(toy_config, toy_dataset)
    assert result_settings(chosen.training) == result_settings(toy_config.training)
    assert chosen.training.precision == "float32"  # shown in MLflow in place of null
