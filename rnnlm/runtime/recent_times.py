"""A check whether a stored time is recent, even if the machine's clock was wrong for a while."""

import time

# The number of seconds by which the clock of another machine or of a file server may be ahead of this one.
AHEAD_SECONDS = 60.0


def is_recent(then: float, seconds: float, ahead: float = AHEAD_SECONDS) -> bool:
    """Return True if `then`, in seconds since 1970, is less than `seconds` ago.

    A time in the future is not recent. It was stored while the clock was ahead, and would otherwise count as recent
    until the clock has reached it, which may take years.
    """
    return -ahead <= time.time() - then < seconds
