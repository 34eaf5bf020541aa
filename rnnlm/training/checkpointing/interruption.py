"""Handle SIGTERM, SIGALRM and Ctrl-C during training: finish the step, write a checkpoint, then deliver the signal."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)  # SIGALRM: a time limit


class InterruptedTraining(BaseException):  # noqa: N818  not an error, like KeyboardInterrupt
    """Leaves the loop; defer_signals catches it and delivers the signal again."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class Interruption:
    """The first signal received while signals are deferred. A second signal is delivered at once, unless it is SIGALRM.

    A time limit repeats SIGALRM while a long step is still running.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.deferring = False

    @contextmanager
    def deferred(self, enabled: bool = True) -> Iterator[None]:
        """Defer signals inside the context, or deliver them at once if not enabled."""
        before, self.deferring = self.deferring, enabled
        try:
            yield
        finally:
            self.deferring = before

    def raise_if_received(self) -> None:
        if self.received is not None:
            logger.warning("training stops at %s", signal.Signals(self.received).name)
            raise InterruptedTraining(self.received)


@contextmanager
def defer_signals() -> Iterator[Interruption]:
    """Install handlers; at the end restore the old ones and deliver a deferred signal to them.

    So Prefect raises its TerminationSignal and Python its KeyboardInterrupt. Only the main thread may install handlers:
    in other threads no signal is deferred, and training resumes from the last periodic checkpoint.
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
            # A process that ignores a signal (nohup, a shell's background job) continues to ignore it.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handle)
    try:
        yield interruption
    except InterruptedTraining as interrupted:
        restore_handlers(before)
        signal.raise_signal(interrupted.number)
        raise  # the old handler returned, but training has ended
    finally:
        restore_handlers(before)


def restore_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
