"""The mLSTM, an LSTM whose memory is a matrix (Beck et al. 2024, "xLSTM: Extended Long Short-Term Memory", 2.3).

Shapes: batch b, time t, hidden size H, heads N, d = H / N. The module imports only torch.
"""

import torch
from torch import Tensor, nn

from .block import Linear
from .cell import Cell, InitialWeights

CHUNK = 64  # The number of time steps in a chunk. They are computed at once.
# The lowest and the highest initial bias of the forget gates, as in the authors' implementation.
FORGET_BIASES = (3.0, 6.0)


class MLSTMCell(Cell):
    """The mLSTM layer, an LSTM whose memory is a matrix.

    In each head, the matrix C maps keys to values, and n is a sum of keys. The gates do not read the state.

        q = x W_q,  k = x W_k / √d,  v = x W_v                  (d,)
        i = exp(x W_i + b_i),  f = σ(x W_f + b_f)               one number
        C' = f C + i k vᵀ                                        (d, d)
        n' = f n + i k                                           (d,)
        h = C'ᵀ q / max(|n'ᵀ q|, 1)                              (d,)
        output = (σ(x W_o) ⊙ norm(h of all heads)) W_y           (H,)

    Here norm is the layer normalization of each head. Because the exponential i could overflow, the state contains C /
    exp(m), n / exp(m) and m instead, (b, N (d² + d + 1)), where

        m' = max(log f + m, log i)

    The outputs do not depend on m, so m gets no gradient.
    """

    def __init__(self, hidden_size: int, heads: int) -> None:
        self.heads, self.size = heads, hidden_size // heads
        super().__init__(hidden_size, state_size=heads * (self.size**2 + self.size + 1))
        self.query, self.key, self.value = (Linear(hidden_size, hidden_size) for _ in range(3))
        self.input_gate, self.forget_gate = nn.Linear(hidden_size, heads), nn.Linear(hidden_size, heads)
        self.output_gate, self.output = Linear(hidden_size, hidden_size), Linear(hidden_size, hidden_size)
        self.gain = nn.Parameter(torch.ones(hidden_size))

    def initialize(self, weights: InitialWeights) -> None:
        """Set the biases of the forget gates, from those of heads that forget soon to those of heads that forget late.

        XLSTMBlock has already initialized the matrices.
        """
        nn.init.ones_(self.gain)
        self.forget_gate.bias.copy_(torch.linspace(*FORGET_BIASES, self.heads))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.queries_keys_values(x)  # (b, N, d)
        C, n, m = self.split(state)
        log_i, log_f = self.input_gate(x), nn.functional.logsigmoid(self.forget_gate(x))  # (b, N)
        stabilizer = torch.maximum(log_f + m, log_i).detach()
        f, i = torch.exp(log_f + m - stabilizer)[..., None], torch.exp(log_i - stabilizer)[..., None]
        C = f[..., None] * C + (i * k)[..., None] * v[..., None, :]
        n = f * n + i * k
        normalizer = torch.maximum((q * n).sum(dim=-1).abs(), torch.exp(-stabilizer))
        h = (q[..., None, :] @ C)[..., 0, :] / normalizer[..., None]
        return self.gated(x, h), torch.cat([C.flatten(1), n.flatten(1), stabilizer], dim=-1)

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the time steps in chunks, each by matrix products as in attention.

        The memory that is needed grows linearly with the number of steps.
        """
        C, n, m = self.split(self.initial_state(x) if state is None else state)
        parts = [part.transpose(1, 2) for part in self.queries_keys_values(x)]  # (b, N, t, d)
        log_i = self.input_gate(x).transpose(1, 2)  # (b, N, t)
        log_f = nn.functional.logsigmoid(self.forget_gate(x)).transpose(1, 2)
        chunks = []
        for start in range(0, x.shape[1], CHUNK):
            chunk = slice(start, start + CHUNK)
            q, k, v = (part[:, :, chunk] for part in parts)
            h, C, n, m = one_chunk(q, k, v, log_i[:, :, chunk], log_f[:, :, chunk], C, n, m)
            chunks.append(h)
        outputs = self.gated(x, torch.cat(chunks, dim=2).transpose(1, 2))
        return outputs, torch.cat([C.flatten(1), n.flatten(1), m], dim=-1)

    def queries_keys_values(self, x: Tensor) -> list[Tensor]:
        """Return q, k and v of the inputs x (…, H), each of shape (…, N, d)."""
        projected = (self.query(x), self.key(x) / self.size**0.5, self.value(x))
        return [part.unflatten(-1, (self.heads, self.size)) for part in projected]

    def split(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split a state, (b, S), into C (b, N, d, d), n (b, N, d) and m (b, N)."""
        C, n, m = state.split([self.hidden_size * self.size, self.hidden_size, self.heads], dim=-1)
        return C.view(-1, self.heads, self.size, self.size), n.view(-1, self.heads, self.size), m.detach()

    def gated(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the gated output, (…, H), for the inputs x (…, H) and the values h (…, N, d)."""
        normalized = nn.functional.layer_norm(h, (self.size,), eps=1e-6).flatten(-2) * self.gain
        return self.output(torch.sigmoid(self.output_gate(x)) * normalized)


def one_chunk(
    q: Tensor, k: Tensor, v: Tensor, log_i: Tensor, log_f: Tensor, C: Tensor, n: Tensor, m: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute a chunk of time steps at once. Return h (b, N, t, d) and the state after the chunk.

    q, k and v have shape (b, N, t, d), log i and log f have shape (b, N, t). C, n and m are the state before the chunk.
    The contribution of step s to step t has the factor D = i_s f_(s+1) … f_t; that of the state before the chunk has
    the factor f_1 … f_t.
    """
    kept = log_f.cumsum(dim=-1)  # The logarithm of the product f_1 … f_t.
    future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    log_D = (kept[..., :, None] + (log_i - kept)[..., None, :]).masked_fill(future, float("-inf"))
    stabilizer = torch.maximum(kept + m[..., None], log_D.amax(dim=-1)).detach()  # The value of m at each step.
    carried = torch.exp(kept + m[..., None] - stabilizer)[..., None]
    D = torch.exp(log_D - stabilizer[..., None])
    weights = D * (q @ k.transpose(-1, -2))
    numerator = carried * (q @ C) + weights @ v
    normalizer = carried[..., 0] * (q @ n[..., None])[..., 0] + weights.sum(dim=-1)
    h = numerator / torch.maximum(normalizer.abs(), torch.exp(-stabilizer))[..., None]
    weighted_keys = D[..., -1, :, None] * k  # Each key is weighted by its contribution to the last step.
    C = carried[:, :, -1:] * C + weighted_keys.transpose(-1, -2) @ v
    n = carried[:, :, -1] * n + weighted_keys.sum(dim=2)
    return h, C, n, stabilizer[..., -1]
