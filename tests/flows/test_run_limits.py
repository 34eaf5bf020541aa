"""A run that takes too long ends with a checkpoint; one that fails unexpectedly runs again."""

import signal
import time

import pytest
from prefect import flow

from flows.operations.flow_runner import run_flow
from flows.operations.run_limits import TimeLimitError, run_limits
from flows.pipeline_flow import pipeline_flow
from rnnlm.config import LimitsConfig, PipelineConfig
from rnnlm.errors import CorpusError, FetchError
from rnnlm.home import Home
from tests.configs import changed

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_time_is_limited_in_the_block_and_not_after_it() -> None:
    expected = r"longer than 2\.77778e-05 hours \(limits\.hours\)"
    with pytest.raises(TimeLimitError, match=expected), run_limits(LimitsConfig(hours=0.1 / 3600)):
        time.sleep(5)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with run_limits(LimitsConfig(hours=0.1 / 3600)):
        pass
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    time.sleep(0.2)


def test_training_writes_a_checkpoint_when_its_time_is_up_and_the_next_run_goes_on(
    tracked_home: Home, toy_config: PipelineConfig
) -> None:
    long = {"training.epochs": 100_000, "training.checkpoints.every_seconds": 3600}
    with pytest.raises(TimeLimitError, match="the next run goes on from its last checkpoint"):
        run_flow(tracked_home, pipeline_flow, changed(toy_config, long | {"limits.hours": 12 / 3600}))
    [checkpoint] = tracked_home.runs.glob("*/checkpoints/*.pt")
    first = int(checkpoint.stem.rpartition("-")[2])
    assert first > 0
    with pytest.raises(TimeLimitError):
        run_flow(tracked_home, pipeline_flow, changed(toy_config, long | {"limits.hours": 8 / 3600}))
    [folder] = tracked_home.runs.glob("*/checkpoints")
    assert max(int(path.stem.rpartition("-")[2]) for path in folder.glob("*.pt")) > first


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("unexpected"), 3),
        (FetchError("the server is overloaded"), 3),
        (CorpusError("the text is empty"), 1),  # a person must act
    ],
)
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
