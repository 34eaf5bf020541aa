import pytest

from rnnlm.config import ProbesConfig
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.reports.probe_page import gradient_report
from tasks.probe_gradients import probe_gradients


@pytest.mark.long
def test_a_runs_gradients_are_measured_once_and_reported(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    record = probe_gradients.fn(toy_dataset, toy_run, ProbesConfig())
    assert not record.skipped
    assert probe_gradients.fn(toy_dataset, toy_run, ProbesConfig()).skipped
    assert not probe_gradients.fn(toy_dataset, toy_run, ProbesConfig(), force=True).skipped
    report = gradient_report(record)
    assert "data:image/png;base64,iVBOR" in report
    assert "| layer | 1 back | 5 back |" in report  # sentences of ten tokens go no further back than nine
    assert f"| 1 | {record.norms[0][1] / record.norms[0][0]:.2g} |" in report
