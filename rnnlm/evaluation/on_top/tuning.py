"""Settings chosen on the validation split, each from a small grid; the test split is never looked at.

Rate first, then decay with that rate; theta with the share that is best for it. The grids are walked over the first
TUNING_TOKENS of the split.
"""

import logging

import numpy as np

from rnnlm.config import CacheConfig, DynamicConfig
from rnnlm.evaluation.on_top.dynamic import Restlessness
from rnnlm.evaluation.on_top.mixing import best_share, mean_nll, mixed
from rnnlm.evaluation.on_top.walking import Walk, walk
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.sequences.batching import Mode, Source

logger = logging.getLogger(__name__)
TUNING_TOKENS = 20_000
RATES = (0.01, 0.03, 0.1, 0.3)
DECAYS = (0.001, 0.01, 0.03)
THETAS = (0.1, 0.3, 1.0)


def tuned_dynamic(
    model: ElmanLanguageModel,
    valid: Source,
    mode: Mode,
    start: DynamicConfig,
    restlessness: Restlessness | None = None,
) -> DynamicConfig:
    """`start` with the rate and the decay that score the validation text best; its segment length stays."""

    def loss(config: DynamicConfig) -> float:
        walked = walk(model, valid, mode, config, restlessness=restlessness, maximum_tokens=TUNING_TOKENS)
        nats = mean_nll(walked.model)
        logger.info("dynamic evaluation: rate %g, decay %g: %.4f nats per token", config.rate, config.decay, nats)
        return nats if np.isfinite(nats) else np.inf

    rated = min((start.model_copy(update={"rate": rate}) for rate in RATES), key=loss)
    return min((rated.model_copy(update={"decay": decay}) for decay in DECAYS), key=loss)


def tuned_cache(model: ElmanLanguageModel, valid: Source, mode: Mode, start: CacheConfig) -> CacheConfig:
    """`start` with the theta and the share that score the validation text best; its size stays."""

    def fitted(theta: float) -> tuple[float, CacheConfig]:
        config = start.model_copy(update={"theta": theta})
        first, second = columns(walk(model, valid, mode, cache=config, maximum_tokens=TUNING_TOKENS))
        share = best_share(first, second)
        nats = mean_nll(mixed(first, second, share))
        logger.info("cache: theta %g, share %.4f: %.4f nats per token", theta, share, nats)
        return nats, config.model_copy(update={"share": share})

    return min((fitted(theta) for theta in THETAS), key=lambda found: found[0])[1]


def columns(walked: Walk) -> tuple[np.ndarray, np.ndarray]:
    """What the model and the cache said."""
    assert walked.cache is not None  # walked with a cache
    return walked.model, walked.cache
