"""A comparison is one MLflow run with the training runs nested below it."""

from pathlib import Path

import pytest

from rnnlm.config import TrackingConfig
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tasks.compare_models import compare_models
from tasks.log_model_comparison import log_model_comparison
from tests.tasks.comparisons import artifacts
from tests.tasks.model_comparisons import CONFIG, costs_of, trained_models


@pytest.mark.long
def test_training_runs_are_nested_below_one_run(tracked_home: Home, toy_dataset: DatasetRecord, tmp_path: Path) -> None:
    trained = trained_models(toy_dataset)
    found = compare_models.fn(CONFIG, toy_dataset, trained, costs_of(trained))
    url = log_model_comparison.fn(found, TrackingConfig())
    assert url is not None
    assert log_model_comparison.fn(found, TrackingConfig()) == url
    parent = url.rpartition("/")[2].partition("?")[0]
    with reaching_mlflow(tracked_home) as client:
        metrics = client.get_run(parent).data.metrics
        for result in found.models:
            assert metrics[f"test_bits_per_byte/{result.model}"] == result.bits_per_byte
        for model in trained.values():
            nested = client.get_run(str(model.runs[0].mlflow_run_id))
            assert nested.data.tags["mlflow.parentRunId"] == parent
    assert artifacts(tracked_home, url, tmp_path)["report.html"] == found.page.read_bytes()
