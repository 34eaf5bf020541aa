"""Costs are measured in processes of their own, once."""

import numpy as np
import pytest

from rnnlm.comparison.run_plan import matched_configs
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from tasks.measure_costs import measure_costs
from tests.tasks.model_comparisons import CONFIG


@pytest.mark.long
def test_costs_are_measured_once_for_all_kinds_together(home: Home, toy_dataset: DatasetRecord) -> None:
    configs = matched_configs(CONFIG, toy_dataset)
    costs = measure_costs.fn(configs, toy_dataset, 0.05)
    assert set(costs) == {"elman", "min-gru"}
    ballast = np.ones(1 << 27, np.float64)  # 1 GiB in this process is none of the models'
    again = measure_costs.fn(configs, toy_dataset, 0.05, force=True)
    assert max(one.peak_mebibytes for one in again.values()) < 900
    del ballast
    for one in costs.values():
        assert one.tokens_per_second > 100
        assert 50 < one.peak_mebibytes < 4_000
        assert 0 < one.milliseconds_per_token < 1_000
    assert measure_costs.fn(configs, toy_dataset, 0.05) == again  # to the last digit: not measured again
    (stored,) = home.comparisons.glob("costs-*.json")
    assert stored.exists()
