"""Score a split segment by segment in the order of the text: score, then learn, then remember."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.extensions.adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.extensions.adaptation.dynamic_evaluation import DynamicModel, GradientRms
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch, RowSource, chunks, cut_stream, stream_batches
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import shifted

SEGMENT_LENGTH = 128  # tokens, without dynamic evaluation; changes only rounding


class SequentialScores(NamedTuple):
    """Natural log-probabilities of the predicted tokens, (tokens,) float64, in order."""

    model: np.ndarray  # by the network's softmax
    cache: np.ndarray  # by the cache without the network; empty without a cache


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
    memory = NeuralCache(cache.size, cache.theta) if cache else None
    by_model, by_cache = [], []
    for segment in read_in_order(model, source, mode, maximum_tokens, learner):
        by_model.append(segment.log_probabilities)
        if memory is not None:
            by_cache.append(memory.log_probabilities(*segment))
    return SequentialScores(joined_scores(by_model), joined_scores(by_cache))


class ScoredSegment(NamedTuple):
    states: Tensor  # (t, H or E), input of the head
    words: Tensor  # (t,) that follow them
    log_probabilities: Tensor  # (t,) of the words, by the network


def read_in_order(
    model: LanguageModel,
    source: RowSource,
    mode: Mode,
    maximum_tokens: int | None = None,
    learner: DynamicModel | None = None,
) -> Iterator[ScoredSegment]:
    """Score segment by segment, without gradients. learner: scores in the model's place, and learns after each."""
    network = learner.network if learner else model
    state, done = None, 0
    for segment in segments(source, mode, learner.segment_length if learner else SEGMENT_LENGTH):
        before = state if segment.carries_state else None
        with torch.set_grad_enabled(learner is not None):
            hidden, after = network.hidden(segment.input_ids, before)
            logits = network.logits(hidden[0])
            log_probabilities = -functional.cross_entropy(logits, segment.target_ids[0], reduction="none")
        yield ScoredSegment(hidden[0].detach(), segment.target_ids[0], log_probabilities.detach())
        if learner is not None:
            learner.learn(-log_probabilities)
        state = after.detach()
        done += len(log_probabilities)
        if maximum_tokens is not None and done >= maximum_tokens:
            break


def joined_scores(parts: Iterable[Tensor]) -> np.ndarray:
    """Join the log-probabilities of each segment, (t,), to (tokens,) float64. Without segments it is empty."""
    return torch.cat([torch.zeros(0), *parts]).double().numpy()


def segments(source: RowSource, mode: Mode, length: int) -> Iterator[Batch]:
    """Yield every predicted token once, in the order of the text, `length` at a time: batches of one row.

    A sentence begins with a state of zeros, as in training, and its last segment may be shorter. A stream is cut as
    one text, regardless of its stored blocks.
    """
    if mode == "stream":
        yield from stream_batches(source, length, cut_stream(source.predicted_count, 1, length))
        return
    for rows in chunks(source):
        for row in range(len(rows)):
            sentence = torch.from_numpy(rows.read(row, row + 1).token_ids.astype(np.int64))[None]
            for start in range(0, sentence.shape[1] - 1, length):
                piece = sentence[:, start : start + length + 1]
                yield Batch(*shifted(piece), start > 0, piece.shape[1] - 1)


class NeuralCache:
    """The continuous neural cache (Grave, Joulin and Usunier 2017): predict what followed similar hidden states.

    It stores the last `size` hidden states h_i, each with the word that came next. After the state h it predicts
    p(w) ∝ sum of exp(theta h · h_i) over the i followed by w.
    """

    def __init__(self, size: int, theta: float) -> None:
        self.size = size
        self.theta = theta
        self.states: Tensor | None = None  # (n, H), the oldest first; None: there are none yet
        self.words = torch.zeros(0, dtype=torch.int64)  # (n,)

    def log_probabilities(self, states: Tensor, words: Tensor, otherwise: Tensor) -> Tensor:
        """Return the log-probabilities of the words, (t,), that follow the states, (t, H).

        -inf for a word not in the cache.

        otherwise: (t,), returned while the cache is empty, at the first token of a text. Each state sees only earlier
        ones, in the cache or among `states`; afterwards all are in the cache.
        """
        known = len(self.words)
        self.states = states if self.states is None else torch.cat([self.states, states])
        self.words = torch.cat([self.words, words])
        place = torch.arange(len(self.words))
        now = torch.arange(known, known + len(words))[:, None]
        visible = (place < now) & (place >= now - self.size)  # (t, n + t)
        weights = (self.theta * states @ self.states.t()).masked_fill(~visible, float("-inf"))
        matching = weights.masked_fill(self.words != words[:, None], float("-inf"))
        found = matching.logsumexp(dim=1) - weights.logsumexp(dim=1)
        self.states, self.words = self.states[-self.size :], self.words[-self.size :]
        return torch.where(visible.any(dim=1), found, otherwise)
