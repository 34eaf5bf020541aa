"""A stored time counts as recent only if it is shortly before now, even if the clock was wrong when it was stored."""

import time

import pytest

from rnnlm.runtime.recent_times import is_recent

MINUTE, HOUR, YEAR = 60.0, 3600.0, 365 * 86_400.0


@pytest.mark.parametrize(
    ("age", "limit", "recent"),
    [
        (0.0, HOUR, True),
        (HOUR - MINUTE, HOUR, True),
        (HOUR + MINUTE, HOUR, False),
        (50 * YEAR, HOUR, False),  # The file dates from 1970, because it was written before the clock was set.
        (-1.0, HOUR, True),  # The file was written by a machine whose clock is ahead by a second.
        (-2 * MINUTE, HOUR, False),  # The file was written while the clock was ahead, and the clock was then put back.
        (-10 * YEAR, HOUR, False),
        (-10 * YEAR, 20 * YEAR, False),
        (1.0, -MINUTE, False),
    ],
)
def test_a_time_in_the_future_or_long_ago_is_not_recent(age: float, limit: float, recent: bool) -> None:
    assert is_recent(time.time() - age, limit) is recent
