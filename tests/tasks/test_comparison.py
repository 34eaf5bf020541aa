import numpy as np
import pytest

from rnnlm.config import TrackingConfig
from rnnlm.extensions.comparison.comparison_config import CompareConfig
from rnnlm.extensions.comparison.run_plan import matched_configs
from rnnlm.storage.home import Home, read_json
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.result_records import EvaluationRecord
from tasks.comparison import compare_costs, log_compared_models, report_comparison
from tests.configs import plain_config
from tests.tasks.tracked_probes import PNG, tracked

CONFIG = CompareConfig(
    pipeline=plain_config({"model.hidden_size": 8, "training.epochs": 1}),
    models=("elman", "min-gru", "kneser-ney"),
    seeds=1,
)


@pytest.mark.long
def test_costs_are_measured_once_for_all_kinds_together(home: Home, toy_dataset: DatasetRecord) -> None:
    configs = matched_configs(CONFIG, toy_dataset)
    # The memory of the test's process, here 1 GiB, must not be included in the models' memory.
    ballast = np.ones(1 << 27, np.float64)
    costs = compare_costs.fn(configs, toy_dataset, 0.05)
    del ballast
    assert set(costs) == {"elman", "min-gru"}
    for one in costs.values():
        assert one.tokens_per_second > 100
        assert 50 < one.peak_mebibytes < 900
        assert 0 < one.milliseconds_per_token < 1_000
    # The costs are exactly equal, because the stored costs are returned.
    assert compare_costs.fn(configs, toy_dataset, 0.05) == costs
    (stored,) = home.comparisons.glob("costs-*.json")
    assert stored.exists()


@pytest.mark.long
def test_a_comparison_is_reported_and_logged_once(
    tracked_home: Home, toy_dataset: DatasetRecord, toy_evaluation: EvaluationRecord
) -> None:
    counts = toy_evaluation.scores["test"].counts  # The scores of the n-gram model with which the network is compared.
    assert counts is not None
    config = CompareConfig(models=("kneser-ney",))

    comparison = report_comparison.fn(config, toy_dataset, {}, {}, ("much is copied",))

    (result,) = comparison.models
    assert (comparison.test_tokens, comparison.target_perplexity, comparison.pairs) == (400, None, ())
    assert result.test_perplexity == pytest.approx(counts.perplexity)
    assert comparison.score_warnings == ("much is copied",)
    assert comparison.picture.read_bytes().startswith(PNG)
    assert "much is copied" in comparison.page.read_text()
    assert read_json(comparison.figures)["value"]["models"][0]["model"] == "kneser-ney"
    assert report_comparison.fn(config, toy_dataset, {}, {}).skipped

    url = log_compared_models.fn(comparison, TrackingConfig())
    assert url is not None
    assert log_compared_models.fn(comparison, TrackingConfig()) == url
    ((_, metrics),) = tracked(tracked_home)
    assert metrics["test_perplexity/kneser-ney"] == [(0, result.test_perplexity)]
