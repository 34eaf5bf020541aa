"""Settings chosen on the validation split, each from a small grid; the test split is never looked at.

Rate first, then decay with that rate; theta with the share that is best for it. The grids are walked over the first
TUNING_TOKENS of the split, that of the decay over DECAY_TOKENS: where too little draws them back the weights drift, and
that shows in a long text only. A warning says where the best is the last of its grid: it may lie beyond.
"""

import logging
from collections.abc import Callable

import numpy as np

from rnnlm.evaluation.test_time_adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.evaluation.test_time_adaptation.dynamic_evaluation import Restlessness
from rnnlm.evaluation.test_time_adaptation.interpolation import best_share, mean_nll, mixed
from rnnlm.evaluation.test_time_adaptation.sequential_scoring import Walk, walk
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.segmentation import Mode

logger = logging.getLogger(__name__)
TUNING_TOKENS = 20_000
DECAY_TOKENS = 100_000
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
DECAYS = (0.0, 0.0001, 0.001, 0.01, 0.03)
THETAS = (0.03, 0.1, 0.3, 1.0)


def tuned_dynamic(
    model: ElmanLanguageModel,
    valid: RowSource,
    mode: Mode,
    start: DynamicConfig,
    restlessness: Restlessness | None = None,
) -> DynamicConfig:
    """`start` with the rate and the decay that score the validation text best; its segment length stays."""

    def loss(rate: float, decay: float, tokens: int) -> float:
        config = start.model_copy(update={"rate": rate, "decay": decay})
        walked = walk(model, valid, mode, config, restlessness=restlessness, maximum_tokens=tokens)
        nats = mean_nll(walked.model)
        logger.info("dynamic evaluation: rate %g, decay %g: %.4f nats per token", rate, decay, nats)
        return nats if np.isfinite(nats) else np.inf

    rate = best_of("rate", RATES, lambda rate: loss(rate, start.decay, TUNING_TOKENS))
    decay = best_of("decay", DECAYS, lambda decay: loss(rate, decay, DECAY_TOKENS))
    return start.model_copy(update={"rate": rate, "decay": decay})


def tuned_cache(model: ElmanLanguageModel, valid: RowSource, mode: Mode, start: CacheConfig) -> CacheConfig:
    """`start` with the theta and the share that score the validation text best; its size stays."""

    shares: dict[float, float] = {}

    def loss(theta: float) -> float:
        config = start.model_copy(update={"theta": theta})
        first, second = columns(walk(model, valid, mode, cache=config, maximum_tokens=TUNING_TOKENS))
        share = shares[theta] = best_share(first, second)
        nats = mean_nll(mixed(first, second, share))
        logger.info("cache: theta %g, share %.4f: %.4f nats per token", theta, share, nats)
        return nats

    theta = best_of("theta", THETAS, loss)
    return start.model_copy(update={"theta": theta, "share": shares[theta]})


def best_of(name: str, grid: tuple[float, ...], loss: Callable[[float], float]) -> float:
    """Of an ascending grid the value with the lowest loss."""
    best = min(grid, key=loss)
    if best == grid[-1] or best == grid[0] > 0:
        logger.warning("%s: %g is the best of %g to %g; beyond may be better", name, best, grid[0], grid[-1])
    return best


def columns(walked: Walk) -> tuple[np.ndarray, np.ndarray]:
    """What the model and the cache said."""
    assert walked.cache is not None  # walked with a cache
    return walked.model, walked.cache
