"""Speed of training in tokens per second, without the time of validations and checkpoints."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class SpeedMeter:
    """Counts tokens from one restart to the next."""

    def __init__(self) -> None:
        self.start, self.tokens = time.perf_counter(), 0

    def restart(self) -> float:
        """Return the number of tokens per second since the last start, and start anew."""
        now = time.perf_counter()
        speed = self.tokens / (now - self.start)
        self.start, self.tokens = now, 0
        return speed

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside the context out."""
        start = time.perf_counter()
        yield
        self.start += time.perf_counter() - start
