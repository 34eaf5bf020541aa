"""Score a split segment by segment in the order of the text. An adaptive model learns from each scored segment."""

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

SEGMENT_LENGTH = 128  # The number of tokens per segment without dynamic evaluation. This length affects only rounding.


class SequentialScores(NamedTuple):
    """Natural log-probabilities of the predicted tokens, (tokens,) float64, in the order of the text."""

    model: np.ndarray  # The log-probabilities of the network's softmax.
    cache: np.ndarray  # The log-probabilities of the cache alone, or an empty array if there is no cache.


def score_in_order(
    model: LanguageModel,
    source: RowSource,
    mode: Mode,
    dynamic: DynamicConfig | None = None,
    cache: CacheConfig | None = None,
    gradient_rms: GradientRms | None = None,
    maximum_tokens: int | None = None,
) -> SequentialScores:
    """Score a split on the CPU, strictly in order: no score depends on a later token. The model is not changed.

    The scores of network and cache are returned separately, so that the caller can try several mixture weights on them.
    `gradient_rms` gives each weight its own rate and decay in dynamic evaluation.
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
    states: Tensor  # The input of the output layer, of shape (t, H) or (t, E).
    words: Tensor  # The tokens that follow the states, of shape (t,).
    log_probabilities: Tensor  # The network's log-probabilities of `words`, of shape (t,).


def read_in_order(
    model: LanguageModel,
    source: RowSource,
    mode: Mode,
    maximum_tokens: int | None = None,
    learner: DynamicModel | None = None,
) -> Iterator[ScoredSegment]:
    """Score a text segment by segment. If `learner` is given, it scores each segment and then learns from it."""
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
    """Concatenate the log-probabilities of the segments, (t,) each, to one float64 array, (tokens,).

    Without segments, the array is empty.
    """
    return torch.cat([torch.zeros(0), *parts]).double().numpy()


def segments(source: RowSource, mode: Mode, length: int) -> Iterator[Batch]:
    """Yield every predicted token once, in the order of the text, as batches with one row of at most `length` tokens.

    In `sentence` mode, each sentence begins with a state of zeros, as in training, and its last segment may be shorter.
    A stream is divided as one continuous text, regardless of its stored blocks.
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
    """The continuous neural cache (Grave, Joulin and Usunier 2017), which predicts words that followed similar states.

    It stores the last `size` hidden states h_i, each with the word that came next. After the state h it predicts p(w) ∝
    Σ exp(theta h · h_i) over all i with the next word w.
    """

    def __init__(self, size: int, theta: float) -> None:
        self.size = size
        self.theta = theta
        # The stored states, of shape (n, H) with the oldest state first, or None before the first segment.
        self.states: Tensor | None = None
        self.words = torch.zeros(0, dtype=torch.int64)  # The word that followed each state, of shape (n,).

    def log_probabilities(self, states: Tensor, words: Tensor, otherwise: Tensor) -> Tensor:
        """Return the cache's log-probabilities of a segment's words, (t,), and add the segment to the cache.

        The log-probability of a word that is not in the cache is -inf. Each state is compared only with earlier states:
        those in the cache and those before it in the segment.

        Args:
            states: Hidden states of the segment, (t, H).
            words: The word that follows each state, (t,).
            otherwise: Log-probabilities to return while the cache is empty, at the first token of a text, (t,).
        """
        known = len(self.words)
        self.states = states if self.states is None else torch.cat([self.states, states])
        self.words = torch.cat([self.words, words])
        place = torch.arange(len(self.words))
        now = torch.arange(known, known + len(words))[:, None]
        # A mask of shape (t, n + t), which is true where the state of a row is compared with the state of a column.
        visible = (place < now) & (place >= now - self.size)
        weights = (self.theta * states @ self.states.t()).masked_fill(~visible, float("-inf"))
        matching = weights.masked_fill(self.words != words[:, None], float("-inf"))
        found = matching.logsumexp(dim=1) - weights.logsumexp(dim=1)
        self.states, self.words = self.states[-self.size :], self.words[-self.size :]
        return torch.where(visible.any(dim=1), found, otherwise)
