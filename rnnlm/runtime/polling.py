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

    The condition is checked at least once. An error whose type is in `ignored` counts as false.
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
