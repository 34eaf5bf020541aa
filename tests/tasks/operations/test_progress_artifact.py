"""Progress reports on their way to Prefect."""

import threading
import time

from rnnlm.display.progress import ProgressReport
from tasks.operations.progress_artifact import LatestReport


def report(step: int) -> ProgressReport:
    return ProgressReport(f"training: step {step}", step / 10)


def test_a_slow_reader_gets_the_newest_report_and_then_the_last() -> None:
    latest = LatestReport()
    for step in (1, 2, 3):
        latest.put(report(step))
    assert latest.take() == report(3)
    latest.put(report(4))
    latest.close()
    assert latest.take() == report(4)
    assert latest.take() is None


def test_a_reader_waits_for_a_report() -> None:
    latest = LatestReport()
    latest.take()  # that training starts
    taken: list[ProgressReport | None] = []
    reader = threading.Thread(target=lambda: taken.append(latest.take()))
    reader.start()
    time.sleep(0.05)
    assert taken == []
    latest.put(report(1))
    reader.join(10)
    assert taken == [report(1)]
