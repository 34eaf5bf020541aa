"""Progress lines show the fraction of the work that is done and the remaining time."""

import logging
import sys

import pytest

from rnnlm.display.progress import SHARE, Progress, ProgressReport, listening
from rnnlm.extensions.distributed.launcher import log_worker_record


def test_listeners_hear_the_line_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[ProgressReport] = []
    caplog.set_level(logging.INFO, "rnnlm.display.progress")
    with listening(heard.append), Progress("training", 2000, "step", every_seconds=0.0, done=500) as progress:
        progress.facts("loss 4.310, 9,000 tokens/s", "best validation perplexity 80.10")
        progress.begun -= 100  # Simulate training that began 100 seconds ago.
        progress.update(500)
    progress.update(1)
    [report] = heard
    assert report.share == 0.5
    facts = "loss 4.310, 9,000 tokens/s, best validation perplexity 80.10"
    # 500 steps took 100 s, so the remaining 1,000 take 200 s.
    assert report.line == f"training: step 1,000 of 2,000, {facts}, 3 min left"
    assert report.line == caplog.messages[0]


def test_progress_of_a_worker_process_reaches_the_listeners_of_its_launcher() -> None:
    heard: list[ProgressReport] = []
    with listening(heard.append):
        log_worker_record(
            f'{{"name": "rnnlm.display.progress", "level": 20, "message": "training: step 1", "{SHARE}": 0.25}}'
        )
        log_worker_record('{"name": "rnnlm.other", "level": 20, "message": "no progress"}')
    assert heard == [ProgressReport("training: step 1", 0.25)]


def test_a_bar_is_shown_in_a_notebook_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar is shown in a notebook, but not in a test. In both cases, standard error is not a terminal."""
    with Progress("training", 3, "step") as progress:
        assert progress.bar.disable
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with Progress("training", 3, "step") as progress:
        assert not progress.bar.disable
        progress.update(2)
        assert progress.bar.n == 2
