from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rnnlm.config import ModelKind, TrackingConfig
from rnnlm.home import Home
from rnnlm.lab.comparison.comparison_config import CompareConfig
from rnnlm.lab.comparison.model_comparison import TrainedModel
from rnnlm.lab.comparison.run_plan import matched_configs, trial_settings
from rnnlm.lab.comparison.training_costs import TrainingCosts
from rnnlm.registry.data_gates import check_gates
from rnnlm.reports.comparison_page import comparison_text
from rnnlm.storage.records import DatasetRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tasks.comparison import compare_costs, log_compared_models, report_comparison
from tasks.evaluation import evaluate_perplexity
from tasks.training import train_model
from tests.configs import plain_config
from tests.tasks.comparisons import artifacts

CONFIG = CompareConfig(
    pipeline=plain_config({"model.hidden_size": 8, "training.epochs": 1}),
    models=("elman", "min-gru", "kneser-ney"),
    seeds=1,
)
COSTS = TrainingCosts(tokens_per_second=1_000.0, peak_mebibytes=500.0, milliseconds_per_token=2.0)


def trained_models(dataset: DatasetRecord) -> dict[ModelKind, TrainedModel]:
    trained = {}
    for kind, config in matched_configs(CONFIG, dataset).items():
        run = train_model.fn(config, dataset)
        evaluation = evaluate_perplexity.fn(dataset, run, config.evaluation)
        settings = trial_settings(config, 1)[0]
        trained[kind] = TrainedModel(
            config=config, trials=(), settings=settings, runs=(run,), evaluations=(evaluation,)
        )
    return trained


def costs_of(trained: dict[ModelKind, TrainedModel]) -> dict[ModelKind, TrainingCosts]:
    return dict.fromkeys(trained, COSTS)


@pytest.mark.long
def test_costs_are_measured_once_for_all_kinds_together(home: Home, toy_dataset: DatasetRecord) -> None:
    configs = matched_configs(CONFIG, toy_dataset)
    costs = compare_costs.fn(configs, toy_dataset, 0.05)
    assert set(costs) == {"elman", "min-gru"}
    ballast = np.ones(1 << 27, np.float64)  # 1 GiB in this process is none of the models'
    again = compare_costs.fn(configs, toy_dataset, 0.05, force=True)
    assert max(one.peak_mebibytes for one in again.values()) < 900
    del ballast
    for one in costs.values():
        assert one.tokens_per_second > 100
        assert 50 < one.peak_mebibytes < 4_000
        assert 0 < one.milliseconds_per_token < 1_000
    assert compare_costs.fn(configs, toy_dataset, 0.05) == again  # to the last digit: not measured again
    (stored,) = home.comparisons.glob("costs-*.json")
    assert stored.exists()


@pytest.mark.long
def test_models_are_ranked_stored_and_nested_below_one_mlflow_run(
    tracked_home: Home, toy_dataset: DatasetRecord, tmp_path: Path
) -> None:
    trained = trained_models(toy_dataset)
    found = report_comparison.fn(CONFIG, toy_dataset, trained, costs_of(trained))
    assert found.settings["model.hidden_size"] == 8  # what differs from the default is told
    assert "model.layers" not in found.settings
    bits = [result.bits_per_byte for result in found.models]
    assert bits == sorted(bits)
    assert {result.model for result in found.models} == {"elman", "min-gru", "kneser-ney"}
    (elman,) = (result for result in found.models if result.model == "elman")
    assert elman.state_bytes == 4 * 8
    assert elman.runs[0].run_id == trained["elman"].runs[0].run_id
    assert elman.loss_by_position[0] is not None
    assert elman.input_gradients[0] == 1.0
    neural = [result for result in found.models if result.costs]
    assert found.target_perplexity == max(result.final_validation_perplexity for result in neural)
    assert all(result.seconds_to(found.target_perplexity) is not None for result in neural)  # so each has reached it
    for pair in found.pairs:
        assert pair.difference <= 0  # the better one is named first
        assert pair.lower <= pair.difference <= pair.upper
    assert {path.name for path in found.folder.iterdir()} == {
        *("comparison.json", "comparison.png", "report.html", "runs.parquet"),
    }
    rows = pq.read_table(found.folder / "runs.parquet").to_pylist()
    assert [row["model"] for row in rows] == [result.model for result in found.models]
    assert rows[0]["test_bits_per_byte"] == pytest.approx(bits[0])
    assert report_comparison.fn(CONFIG, toy_dataset, trained, costs_of(trained)).skipped

    url = log_compared_models.fn(found, TrackingConfig())
    assert url is not None
    assert log_compared_models.fn(found, TrackingConfig()) == url
    parent = url.rpartition("/")[2].partition("?")[0]
    with reaching_mlflow(tracked_home) as client:
        metrics = client.get_run(parent).data.metrics
        for result in found.models:
            assert metrics[f"test_bits_per_byte/{result.model}"] == result.bits_per_byte
        for model in trained.values():
            nested = client.get_run(str(model.runs[0].mlflow_run_id))
            assert nested.data.tags["mlflow.parentRunId"] == parent
    assert artifacts(tracked_home, url, tmp_path)["report.html"] == found.page.read_bytes()


@pytest.mark.long
def test_a_warning_of_copied_text_stands_beside_the_scores(home: Home, toy_dataset: DatasetRecord) -> None:
    """The toy corpus has few sentences: most of its test lines occur in training."""
    trained = trained_models(toy_dataset)
    warnings = check_gates(home, CONFIG.pipeline, toy_dataset).score_warnings
    found = report_comparison.fn(CONFIG, toy_dataset, trained, costs_of(trained), warnings)
    told = "text stands in the training text too"
    assert told in comparison_text(found)
    page = found.page.read_text(encoding="utf-8")
    assert told in page
    assert 'name="viewport" content="width=device-width' in page  # readable on a phone
    without = report_comparison.fn(CONFIG, toy_dataset, trained, costs_of(trained))
    assert without.skipped
    assert told not in comparison_text(without)
