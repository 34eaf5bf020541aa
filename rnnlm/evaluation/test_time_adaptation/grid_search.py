"""Tune settings on the validation split, each over a small grid; the test split is never used.

Rate first, then decay at that rate; theta with its best share. The grids are scored on the first TUNING_TOKENS of the
split, decay on DECAY_TOKENS: if too little draws the weights back they drift, which shows only in a long text. A
warning says if the best value is the last of its grid.
"""

import logging
from collections.abc import Callable

import numpy as np

from rnnlm.evaluation.test_time_adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.evaluation.test_time_adaptation.dynamic_evaluation import GradientRms
from rnnlm.evaluation.test_time_adaptation.interpolation import best_share, mean_nll
from rnnlm.evaluation.test_time_adaptation.sequential_scoring import score_in_order
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import mixed
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.segmentation import Mode

logger = logging.getLogger(__name__)
TUNING_TOKENS = 20_000
DECAY_TOKENS = 100_000
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
DECAYS = (0.0, 0.0001, 0.001, 0.01, 0.03)
THETAS = (0.03, 0.1, 0.3, 1.0)


def tuned_dynamic(
    model: LanguageModel,
    valid: RowSource,
    mode: Mode,
    start: DynamicConfig,
    gradient_rms: GradientRms | None = None,
) -> DynamicConfig:
    """`start` with the rate and the decay that score the validation text best."""

    def loss(rate: float, decay: float, tokens: int) -> float:
        config = start.model_copy(update={"rate": rate, "decay": decay})
        scores = score_in_order(model, valid, mode, config, gradient_rms=gradient_rms, maximum_tokens=tokens)
        nats = mean_nll(scores.model)
        logger.info("dynamic evaluation: rate %g, decay %g: %.4f nats per token", rate, decay, nats)
        return nats if np.isfinite(nats) else np.inf

    rate = best_of("rate", RATES, lambda rate: loss(rate, start.decay, TUNING_TOKENS))
    decay = best_of("decay", DECAYS, lambda decay: loss(rate, decay, DECAY_TOKENS))
    return start.model_copy(update={"rate": rate, "decay": decay})


def tuned_cache(model: LanguageModel, valid: RowSource, mode: Mode, start: CacheConfig) -> CacheConfig:
    """`start` with the theta and the share that score the validation text best."""
    shares: dict[float, float] = {}

    def loss(theta: float) -> float:
        config = start.model_copy(update={"theta": theta})
        scores = score_in_order(model, valid, mode, cache=config, maximum_tokens=TUNING_TOKENS)
        first, second = scores.both()
        share = shares[theta] = best_share(first, second)
        nats = mean_nll(mixed(first, second, share))
        logger.info("cache: theta %g, share %.4f: %.4f nats per token", theta, share, nats)
        return nats

    theta = best_of("theta", THETAS, loss)
    return start.model_copy(update={"theta": theta, "share": shares[theta]})


def best_of(name: str, grid: tuple[float, ...], loss: Callable[[float], float]) -> float:
    """The value of an ascending grid with the lowest loss."""
    best = min(grid, key=loss)
    if best == grid[-1] or best == grid[0] > 0:
        logger.warning(
            "%s: %g is the best of %g to %g; values outside the grid may be better", name, best, grid[0], grid[-1]
        )
    return best
