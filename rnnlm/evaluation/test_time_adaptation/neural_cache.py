"""The continuous neural cache (Grave, Joulin and Usunier 2017): predict what followed similar hidden states.

The cache stores the last hidden states h_i, each with the word that came next. After the state h it predicts
p(w) ∝ sum of exp(theta h · h_i) over the i followed by w.
"""

import torch
from torch import Tensor


class NeuralCache:
    """The last `size` states with the words after them; grows from empty."""

    def __init__(self, size: int, theta: float, hidden_size: int) -> None:
        self.size = size
        self.theta = theta
        self.states = torch.zeros(0, hidden_size)  # (n, H), the oldest first
        self.words = torch.zeros(0, dtype=torch.int64)  # (n,)

    def log_probabilities(self, states: Tensor, words: Tensor, otherwise: Tensor) -> Tensor:
        """states (t, H) and the words (t,) that follow them → (t,) log-probabilities, -inf for a word not in the cache.

        otherwise: (t,), returned while the cache is empty, at the first token of a text. Each state sees only earlier
        ones, in the cache or among `states`; afterwards all are in the cache.
        """
        known = len(self.words)
        self.states, self.words = torch.cat([self.states, states]), torch.cat([self.words, words])
        place = torch.arange(len(self.words))
        now = torch.arange(known, known + len(words))[:, None]
        visible = (place < now) & (place >= now - self.size)  # (t, n + t)
        weights = (self.theta * states @ self.states.t()).masked_fill(~visible, float("-inf"))
        matching = weights.masked_fill(self.words != words[:, None], float("-inf"))
        found = matching.logsumexp(dim=1) - weights.logsumexp(dim=1)
        self.states, self.words = self.states[-self.size :], self.words[-self.size :]
        return torch.where(visible.any(dim=1), found, otherwise)
