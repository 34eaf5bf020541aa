"""The speed of training in tokens per second, without the time of validations and checkpoints."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class SpeedMeter:
    """A counter of trained tokens per second since its last restart."""

    def __init__(self) -> None:
        self.start, self.tokens = time.perf_counter(), 0

    def restart(self) -> tuple[float, float]:
        """Return the seconds since the last restart and the tokens per second in that time, then restart."""
        now = time.perf_counter()
        seconds = now - self.start
        speed = self.tokens / seconds
        self.start, self.tokens = now, 0
        return seconds, speed

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time spent inside the context."""
        start = time.perf_counter()
        yield
        self.start += time.perf_counter() - start
