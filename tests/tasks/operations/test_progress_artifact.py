"""Progress reports are stored as an artifact of the Prefect task run."""

import queue

from rnnlm.display.progress import ProgressReport
from tasks.operations.progress_artifact import Reports, newest


def report(step: int) -> ProgressReport:
    return ProgressReport(f"training: step {step}", step / 10)


def test_a_slow_reader_gets_the_newest_report_and_then_the_last() -> None:
    reports: Reports = queue.SimpleQueue()
    for step in (1, 2, 3):
        reports.put(report(step))
    assert newest(reports) == report(3)
    reports.put(report(4))
    reports.put(None)
    assert newest(reports) == report(4)
    assert newest(reports) is None
