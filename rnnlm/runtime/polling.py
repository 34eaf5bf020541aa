"""Repeated checks of a condition for a limited time."""

import time
from collections.abc import Callable


def poll_until(
    condition: Callable[[], bool],
    seconds: float,
    every_seconds: float = 0.5,
    ignored: type[Exception] | tuple[type[Exception], ...] = (),
) -> bool:
    """Wait until the condition is true. Return False if this takes more than `seconds`.

    The condition is checked at least once. `ignored` are errors that mean that the condition is not true yet.
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
