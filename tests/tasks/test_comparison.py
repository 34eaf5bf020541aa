import numpy as np
import pytest

from rnnlm.home import Home
from rnnlm.lab.comparison.comparison_config import CompareConfig
from rnnlm.lab.comparison.run_plan import matched_configs
from rnnlm.storage.records import DatasetRecord
from tasks.comparison import compare_costs
from tests.configs import plain_config

CONFIG = CompareConfig(
    pipeline=plain_config({"model.hidden_size": 8, "training.epochs": 1}),
    models=("elman", "min-gru", "kneser-ney"),
    seeds=1,
)


@pytest.mark.long
def test_costs_are_measured_once_for_all_kinds_together(home: Home, toy_dataset: DatasetRecord) -> None:
    configs = matched_configs(CONFIG, toy_dataset)
    ballast = np.ones(1 << 27, np.float64)  # 1 GiB in this process is none of the models'
    costs = compare_costs.fn(configs, toy_dataset, 0.05)
    del ballast
    assert set(costs) == {"elman", "min-gru"}
    for one in costs.values():
        assert one.tokens_per_second > 100
        assert 50 < one.peak_mebibytes < 900
        assert 0 < one.milliseconds_per_token < 1_000
    assert compare_costs.fn(configs, toy_dataset, 0.05) == costs  # to the last digit: not measured again
    (stored,) = home.comparisons.glob("costs-*.json")
    assert stored.exists()
