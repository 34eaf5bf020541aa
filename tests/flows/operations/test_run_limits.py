"""A run that exceeds its time limit writes a checkpoint and ends. A run that fails unexpectedly is retried."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prefect import flow

from flows.operations.flow_runner import run_flow
from flows.operations.run_limits import TimeLimitError, run_limits
from flows.pipeline_flow import pipeline_flow
from rnnlm.config import LimitsConfig, PipelineConfig
from rnnlm.errors import CorpusError, FetchError
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import UntrackedRun


def test_time_is_limited_in_the_block_and_not_after_it() -> None:
    expected = r"longer than 2\.77778e-05 hours \(limits\.hours\)"
    with pytest.raises(TimeLimitError, match=expected), run_limits(LimitsConfig(hours=0.1 / 3600)):
        time.sleep(5)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with run_limits(LimitsConfig(hours=0.1 / 3600)):
        pass
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    time.sleep(0.2)


class AlarmedRun(UntrackedRun):
    """A tracker that sends the signal of the time limit after the first measurement."""

    def __call__(self) -> None:
        signal.raise_signal(signal.SIGALRM)


@contextmanager
def alarmed(run_id: str) -> Iterator[AlarmedRun]:
    yield AlarmedRun()


@pytest.mark.long
def test_a_time_limit_ends_training_with_a_checkpoint(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    config = changed(toy_config, {"training.epochs": 4, "training.checkpoints.every_seconds": 3600})
    steps = []
    for _ in range(2):
        with (
            pytest.raises(TimeLimitError, match="continues from its last checkpoint"),
            run_limits(LimitsConfig(hours=1)),
        ):
            run_training(home, config, toy_dataset, alarmed)
        steps.append(max(int(path.name[5:]) for path in home.runs.glob("*/checkpoints/step-*")))
    assert 0 < steps[0] < steps[1]


@pytest.mark.long
@pytest.mark.usefixtures("prefect_server")
def test_the_pipeline_ends_when_its_time_is_up(
    tracked_home: Home, toy_config: PipelineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The alarm arrives while the flow sleeps. Its exception in other code might leave a lock of `coverage` taken.
    monkeypatch.setattr("flows.pipeline_flow.prepare", lambda config: time.sleep(60))
    with pytest.raises(TimeLimitError):
        run_flow(tracked_home, pipeline_flow, config=changed(toy_config, {"limits.hours": 0.1 / 3600}))
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_alarm_that_a_library_swallows_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.operations.run_limits.REPEAT_SECONDS", 0.2)
    swallowed = []
    with pytest.raises(TimeLimitError), run_limits(LimitsConfig(hours=0.1 / 3600)):
        try:
            time.sleep(5)
        except Exception as error:
            swallowed.append(error)
        time.sleep(5)
    assert len(swallowed) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("unexpected"), 3),
        (FetchError("the server is overloaded"), 3),
        (CorpusError("the text is empty"), 1),  # Only the user can fix a CorpusError, so the run is not retried.
    ],
)
@pytest.mark.long
@pytest.mark.usefixtures("prefect_server")
def test_an_unexpected_error_is_retried_and_a_users_error_is_not(error: Exception, expected: int) -> None:
    attempts = []

    @flow
    def failing() -> None:
        with run_limits(LimitsConfig(retries=2, retry_minutes=0)):
            attempts.append(1)
            raise error

    with pytest.raises(type(error)):
        failing()
    assert len(attempts) == expected
