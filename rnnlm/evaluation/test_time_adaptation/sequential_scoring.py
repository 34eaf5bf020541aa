"""Score a split segment by segment in the order of the text: score, then learn, then remember."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from rnnlm.evaluation.test_time_adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.evaluation.test_time_adaptation.dynamic_evaluation import DynamicModel, GradientRms
from rnnlm.evaluation.test_time_adaptation.neural_cache import NeuralCache
from rnnlm.evaluation.test_time_adaptation.segments import segments
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.segmentation import Mode

SEGMENT_LENGTH = 128  # tokens, without dynamic evaluation; changes only rounding


@dataclass(frozen=True)
class SequentialScores:
    """Natural log-probabilities of the predicted tokens, in order: 16 bytes a token."""

    model: np.ndarray  # (tokens,) float64: by the network's softmax
    cache: np.ndarray | None  # (tokens,) float64: by the cache without the network; None without a cache

    def both(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.cache is not None  # scored with a cache
        return self.model, self.cache


def score_in_order(
    model: LanguageModel,
    source: RowSource,
    mode: Mode,
    dynamic: DynamicConfig | None = None,
    cache: CacheConfig | None = None,
    gradient_rms: GradientRms | None = None,  # for `dynamic`: each weight's own rate and decay
    maximum_tokens: int | None = None,
) -> SequentialScores:
    """Score a split on the CPU, strictly in order: no score depends on a later token. The model is not changed.

    The cache is not mixed in, so that the caller can try shares without scoring again.
    """
    learner = DynamicModel(model, dynamic, gradient_rms) if dynamic is not None and dynamic.rate > 0 else None
    network = learner.network if learner else model
    memory = NeuralCache(cache.size, cache.theta, network.head.in_features) if cache else None
    by_model: list[np.ndarray] = []
    by_cache: list[np.ndarray] = []
    state, done = None, 0
    for segment in segments(source, mode, learner.segment_length if learner else SEGMENT_LENGTH):
        before = state if segment.carries_state else None
        with torch.set_grad_enabled(learner is not None):
            hidden, after = network.hidden(segment.input_ids, before)
            logits = network.logits(hidden[0])
            log_probabilities = -functional.cross_entropy(logits, segment.target_ids[0], reduction="none")
        scored = log_probabilities.detach()
        by_model.append(scored.double().numpy())
        if memory is not None:
            cached = memory.log_probabilities(hidden[0].detach(), segment.target_ids[0], scored)
            by_cache.append(cached.double().numpy())
        if learner is not None:
            learner.learn(-log_probabilities)
        state = after.detach()
        done += len(scored)
        if maximum_tokens is not None and done >= maximum_tokens:
            break
    return SequentialScores(np.concatenate(by_model), np.concatenate(by_cache) if memory is not None else None)
