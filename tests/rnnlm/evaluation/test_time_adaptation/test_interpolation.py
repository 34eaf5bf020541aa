"""Linear mixtures and the search for the best share."""

import numpy as np
import pytest

from rnnlm.evaluation.test_time_adaptation.interpolation import best_share, mean_nll
from rnnlm.models.mixture import mixed

DRAW = np.random.Generator(np.random.Philox(0))


def two_models(lean: float) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of 2,000 probabilities each; the larger `lean`, the better the second."""
    first, second = DRAW.uniform(0.01, 1.0, (2, 2_000))
    return np.log(first), np.log(second**lean)


def test_a_mixture_is_the_weighted_sum_of_probabilities() -> None:
    first, second = np.log([0.5, 0.1]), np.log([0.1, 0.9])
    assert np.exp(mixed(first, second, 0.25)) == pytest.approx([0.75 * 0.5 + 0.25 * 0.1, 0.75 * 0.1 + 0.25 * 0.9])


def test_shares_0_and_1_are_the_models_themselves() -> None:
    first, second = np.log([0.5, 0.1]), np.array([-np.inf, -1.0])
    assert mixed(first, second, 0.0).tolist() == first.tolist()
    assert mixed(first, second, 1.0).tolist() == second.tolist()


def test_a_share_may_be_one_for_each_token() -> None:
    first, second = np.log([0.5, 0.5, 0.5]), np.log([0.9, 0.9, 0.1])
    assert np.exp(mixed(first, second, np.array([0.0, 1.0, 0.5]))) == pytest.approx([0.5, 0.9, 0.3])


def test_a_token_that_one_model_holds_impossible_has_the_others_share() -> None:
    assert np.exp(mixed(np.log([0.5]), np.array([-np.inf]), 0.2)) == pytest.approx([0.4])


@pytest.mark.parametrize("lean", [0.3, 1.0, 2.0])
def test_the_search_finds_what_a_fine_grid_finds(lean: float) -> None:
    first, second = two_models(lean)
    grid = np.linspace(0.0, 1.0, 2_001)
    on_grid = grid[np.argmin([mean_nll(mixed(first, second, share)) for share in grid.tolist()])]
    assert best_share(first, second) == pytest.approx(on_grid, abs=0.0006)


@pytest.mark.parametrize("lean", [0.1, 1.0, 10.0])
def test_the_best_mixture_is_no_worse_than_either(lean: float) -> None:
    first, second = two_models(lean)
    best = mean_nll(mixed(first, second, best_share(first, second)))
    assert best <= min(mean_nll(first), mean_nll(second))


def test_a_model_that_is_better_everywhere_gets_everything() -> None:
    worse = np.log(DRAW.uniform(0.01, 0.5, 100))
    assert best_share(worse, worse + 0.5) == 1.0
    assert best_share(worse, worse - 0.5) == 0.0
