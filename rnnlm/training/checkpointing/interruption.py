"""SIGTERM and Ctrl-C while training: noted at once, obeyed between two steps, after a checkpoint."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class InterruptedTraining(BaseException):  # noqa: N818  no error: like KeyboardInterrupt
    """Leaves the loop for noticing_signals, which delivers the signal again."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class Interruption:
    """What the loop asks. While it holds signals back the first one is noted; a second one passes through."""

    def __init__(self) -> None:
        self.noted: int | None = None
        self.holding = False

    @contextmanager
    def held_back(self, held: bool = True) -> Iterator[None]:
        before, self.holding = self.holding, held
        try:
            yield
        finally:
            self.holding = before

    def leave_if_noted(self) -> None:
        if self.noted is not None:
            logger.warning("training stops at %s", signal.Signals(self.noted).name)
            raise InterruptedTraining(self.noted)


@contextmanager
def noticing_signals() -> Iterator[Interruption]:
    """Handlers for the block. At its end the old ones are back, and a noted signal is delivered to them.

    So Prefect raises its TerminationSignal and Python its KeyboardInterrupt, as ever. Only the main thread may set
    handlers: in another nothing is ever noted, and the last periodic checkpoint counts.
    """
    interruption = Interruption()
    before: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        if interruption.holding and interruption.noted is None:
            interruption.noted = number
            return
        signal.signal(number, before[number])
        signal.raise_signal(number)

    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            # Who ignores a signal (nohup, a shell's background job) goes on ignoring it.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handle)
    try:
        yield interruption
    except InterruptedTraining as interrupted:
        restore(before)
        signal.raise_signal(interrupted.number)
        raise  # the old handler let it go on: training has ended all the same
    finally:
        restore(before)


def restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
