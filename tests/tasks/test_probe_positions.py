from rnnlm.config import ProbesConfig
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.reports.probe_page import positions_report
from tasks.probe_positions import probe_positions


def test_a_runs_right_guesses_are_measured_once_and_reported(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    config = ProbesConfig(given_tokens=3)
    record = probe_positions.fn(toy_dataset, toy_run, config)
    assert not record.skipped
    assert probe_positions.fn(toy_dataset, toy_run, config).skipped
    report = positions_report(record)
    assert "data:image/png;base64,iVBOR" in report
    assert "| 1 | 40 | 100.0% | given |" in report  # every line begins with "the"
    assert "| 4 | 40 | 100.0% | 100.0% |" in report  # its fourth word is "the", too
