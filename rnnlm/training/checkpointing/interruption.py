"""Signals during training. On SIGTERM, SIGALRM or Ctrl-C, training finishes the current step and stops.

It writes a checkpoint before it stops.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rnnlm.training.process_group import ProcessGroup

logger = logging.getLogger(__name__)
# The signals that interrupt training. SIGALRM is sent by time limits.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)


class InterruptedTraining(BaseException):  # noqa: N818  not an error, like KeyboardInterrupt
    """An exception that leaves the training loop. defer_signals() catches it and delivers the signal again."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class Interruption:
    """The first signal received while signals are deferred.

    A second signal is delivered at once, except SIGALRM. A time limit repeats SIGALRM while a long step is still
    running.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.deferring = False

    @contextmanager
    def deferred(self, enabled: bool = True) -> Iterator[None]:
        """Defer signals inside the context. If `enabled` is false, deliver them at once instead."""
        before, self.deferring = self.deferring, enabled
        try:
            yield
        finally:
            self.deferring = before

    def received_by_any(self, process_group: ProcessGroup, or_else: bool = False) -> bool:
        """Return True on all ranks if any rank has received a signal, or if `or_else` is true on any rank.

        This is a collective: every rank must call it at the same step. The signal counts as received on all ranks.
        """
        # One collective transmits both the signal and `or_else`.
        largest = process_group.max(2 * (self.received or 0) + or_else)
        if largest >= 2:
            self.received = largest // 2
        return largest > 0

    def raise_if_received(self) -> None:
        if self.received is not None:
            logger.warning("training stops because of %s", signal.Signals(self.received).name)
            raise InterruptedTraining(self.received)


@contextmanager
def defer_signals() -> Iterator[Interruption]:
    """Install handlers that defer signals.

    At the end, restore the former handlers and deliver a deferred signal to them. Thus Prefect still raises its
    TerminationSignal, and Python its KeyboardInterrupt. Python lets only the main thread install handlers. In other
    threads signals are not deferred, and an interrupted run resumes from the last periodic checkpoint.
    """
    interruption = Interruption()
    before: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        if interruption.deferring and (interruption.received is None or number == signal.SIGALRM):
            interruption.received = interruption.received or number
            return
        signal.signal(number, before[number])
        signal.raise_signal(number)

    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            # A signal that the parent process ignored, like nohup or a shell for a background job, is also ignored
            # here.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handle)
    try:
        yield interruption
    except InterruptedTraining as interrupted:
        restore_handlers(before)
        signal.raise_signal(interrupted.number)
        raise  # Training ends even if the former handler of the signal has returned.
    finally:
        restore_handlers(before)


def restore_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
