"""Two models that predict the same tokens, mixed linearly: p = (1 - share) p_first + share p_second."""

from collections.abc import Callable

import numpy as np

GOLDEN = (5**0.5 - 1) / 2
PRECISION = 1e-6  # of a share


def mixed(first: np.ndarray, second: np.ndarray, share: float) -> np.ndarray:
    """Logarithms of the mixture from those of its parts, (tokens,) each. Share 0 is the first alone, 1 the second."""
    if share == 0.0:
        return first
    if share == 1.0:
        return second
    return np.logaddexp(np.log1p(-share) + first, np.log(share) + second)


def mean_nll(log_probabilities: np.ndarray) -> float:
    """Nats per token; inf where a token was held impossible."""
    return float(-log_probabilities.mean())


def best_share(first: np.ndarray, second: np.ndarray) -> float:
    """The share of the second with the lowest mean loss on these tokens, to within PRECISION.

    The loss of a mixture is convex in the share, so it has one valley, which golden-section search (Kiefer 1953)
    closes in on. The ends are tried, too: the mixture is never worse here than either alone.
    """
    inside = golden_section(lambda share: mean_nll(mixed(first, second, share)), 0.0, 1.0)
    return min((inside, 0.0, 1.0), key=lambda share: mean_nll(mixed(first, second, share)))


def golden_section(loss: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley between low and high is lowest.

    Each step keeps the part that holds the valley, 0.618 of the width, and one of its two inner points.
    """
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > PRECISION:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2
