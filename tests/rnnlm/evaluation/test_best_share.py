"""Linear mixtures of two models, and the search for the best weight."""

import numpy as np
import pytest

from rnnlm.evaluation.count_shares import best_share, mean_nll
from rnnlm.models.mixture import mixed

DRAW = np.random.Generator(np.random.Philox(0))


@pytest.mark.parametrize(
    ("first", "second", "share", "expected"),
    [
        ([0.5, 0.1], [0.1, 0.9], 0.25, [0.4, 0.3]),
        ([0.5, 0.1], [0.0, 0.9], 0.0, [0.5, 0.1]),
        ([0.5, 0.1], [0.0, 0.9], 1.0, [0.0, 0.9]),
        # The first model predicts the token with 0.5 and the second one with 0. The mixture with the weight 0.2
        # predicts it with 0.4.
        ([0.5], [0.0], 0.2, [0.4]),
        # The tokens have the weights 0, 1 and 0.5.
        ([0.5, 0.5, 0.5], [0.9, 0.9, 0.1], np.array([0.0, 1.0, 0.5]), [0.5, 0.9, 0.3]),
    ],
)
def test_a_mixture_is_the_weighted_sum_of_probabilities(
    first: list[float], second: list[float], share: float | np.ndarray, expected: list[float]
) -> None:
    with np.errstate(divide="ignore"):
        logarithms = np.log(first), np.log(second)
    assert np.exp(mixed(*logarithms, share)) == pytest.approx(expected)


@pytest.mark.parametrize("lean", [0.1, 0.3, 1.0, 2.0, 10.0])
def test_the_best_share_equals_a_fine_grid_and_beats_both_models(lean: float) -> None:
    """The best weight of a mixture gives the loss that a fine grid search finds. Neither model alone has a lower loss.

    Each model has 2,000 probabilities. The second model becomes worse as `lean` grows.
    """
    first, second = DRAW.uniform(0.01, 1.0, (2, 2_000))
    first, second = np.log(first), np.log(second**lean)
    grid = np.linspace(0.0, 1.0, 2_001)
    on_grid = grid[np.argmin([mean_nll(mixed(first, second, share)) for share in grid.tolist()])]
    share = best_share(first, second)
    assert share == pytest.approx(on_grid, abs=0.0006)
    assert mean_nll(mixed(first, second, share)) <= min(mean_nll(first), mean_nll(second))
