"""Limits of a flow run: stop it after some hours with a checkpoint, and retry it after an unexpected error.

In Prefect, time limit and retries are options of a flow and apply to all its deployments. Here they are settings, so
that each deployment can have different ones. Prefect's server still performs and counts the retries.
"""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rnnlm.config import LimitsConfig
from rnnlm.errors import RnnlmError, is_worth_a_retry

logger = logging.getLogger(__name__)
REPEAT_SECONDS = 30.0


class TimeLimitError(RnnlmError):
    """The error that is raised if a run takes longer than limits.hours.

    Training writes a checkpoint before the run ends.
    """


@contextmanager
def run_limits(limits: LimitsConfig) -> Iterator[None]:
    """Raise TimeLimitError after limits.hours, and allow retries after an unexpected error.

    The block must run in the main thread.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimitError(
            f"the run took longer than {limits.hours:g} hours (limits.hours), and was stopped;\n"
            "the next run continues from its last checkpoint"
        )

    before = signal.signal(signal.SIGALRM, stop)
    # The signal is repeated, because a library that catches all exceptions may suppress the first one.
    signal.setitimer(signal.ITIMER_REAL, 0 if limits.hours is None else 3600 * limits.hours, REPEAT_SECONDS)
    try:
        yield
    except Exception as error:
        if limits.retries and is_worth_a_retry(error):
            allow_retries(limits)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def allow_retries(limits: LimitsConfig) -> None:
    """Let Prefect's server retry this run.

    The server replaces the next Failed state by AwaitingRetry, limits.retries times.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import FlowRunPolicy
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    policy = FlowRunPolicy(retries=limits.retries, retry_delay=round(60 * limits.retry_minutes))
    try:
        with get_client(sync_client=True) as client:
            client.update_flow_run(context.flow_run.id, empirical_policy=policy)
    except Exception as error:  # The error of the run itself is raised, so this error is only logged.
        logger.warning("the run cannot be retried: %s", error)
