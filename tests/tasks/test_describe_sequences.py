import pytest

from rnnlm.records import DatasetRecord
from tasks.describe_sequences import describe_sequences


@pytest.mark.long
def test_the_report_names_the_dataset_and_holds_its_pictures(toy_dataset: DatasetRecord) -> None:
    report = describe_sequences.fn(toy_dataset)
    assert report.startswith(f"## Dataset {toy_dataset.dataset_id}")
    assert report.count("data:image/png;base64,") == 2
