import pytest

from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.storage.records import DatasetRecord
from tasks.sequences import check_data


@pytest.mark.long
def test_all_gates_are_checked_in_order(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    record = check_data.fn(toy_config, toy_dataset)
    assert record.model_name == "rnnlm-toy"
    assert [result.gate for result in record.results] == ["shrinkage", "unknown", "duplicates", "leakage", "drift"]
