"""Ask again and again until something holds, for a limited time."""

import time
from collections.abc import Callable


def poll_until(
    condition: Callable[[], bool],
    seconds: float,
    every_seconds: float = 0.5,
    ignored: type[Exception] | tuple[type[Exception], ...] = (),
) -> bool:
    """Wait until the condition is true, and return False if it is not in time. It is asked at least once.

    ignored: errors that mean "not yet".
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return True
        except ignored:
            pass
        if time.monotonic() > deadline:
            return False
        time.sleep(every_seconds)
