"""The share of two models that predict the same tokens: p = (1 - share) p_first + share p_second."""

from collections.abc import Callable

import numpy as np

from rnnlm.models.mixture import mixed

GOLDEN = (5**0.5 - 1) / 2
PRECISION = 1e-6  # of a share


def mean_nll(log_probabilities: np.ndarray) -> float:
    """Nats per token; inf if a token has probability zero."""
    return float(-log_probabilities.mean())


def best_share(first: np.ndarray, second: np.ndarray) -> float:
    """The share of the second with the lowest mean loss on these tokens, to within PRECISION.

    The loss is convex in the share: golden-section search (Kiefer 1953) finds its minimum. The ends are tried too, so
    the mixture is never worse on these tokens than either model.
    """
    inside = golden_section(lambda share: mean_nll(mixed(first, second, share)), 0.0, 1.0)
    return min((inside, 0.0, 1.0), key=lambda share: mean_nll(mixed(first, second, share)))


def golden_section(loss: Callable[[float], float], low: float, high: float) -> float:
    """Minimum of a function that is unimodal between low and high.

    Each step keeps 0.618 of the interval and one of its two inner points.
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
