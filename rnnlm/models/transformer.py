"""A block of a decoder-only Transformer (Vaswani et al. 2017) as in Llama. The module imports only torch.

The block has RMS normalization before each part (Zhang and Sennrich 2019), rotary positions (Su et al. 2021) and a
gated feed-forward layer (Shazeer 2020). Attention is limited to a window of tokens (Jiang et al. 2023), so the state
has a fixed size.
"""

import torch
from torch import Tensor, nn

from .block import Block, Linear

ROTARY_BASE = 10_000.0


class TransformerBlock(Block):
    """A Transformer block, y = x + attention(norm(x)) and output = y + feed_forward(norm(y)).

    In each head of d = H / heads units, where R_t is `rotate` by position t:

        q_t = norm(x_t) W_q,  k_t = norm(x_t) W_k,  v_t = norm(x_t) W_v         (d,)
        a_ts = softmax over s of R_t q_t · R_s k_s / √d                          t - window < s ≤ t
        y_t = x_t + (Σ_s a_ts v_s of all heads) W_y                              (H,)

    The state, (b, 2 · window · H + 1), is the key-value cache. It contains the keys and values of the last `window`
    tokens, the newest one last, and the number of these tokens.
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int, attention_window: int) -> None:
        super().__init__(input_size, hidden_size, state_size=2 * attention_window * hidden_size + 1)
        self.heads, self.window = heads, attention_window
        self.attention_norm = nn.RMSNorm(hidden_size, eps=1e-6)
        self.query, self.key, self.value, self.output = (Linear(hidden_size, hidden_size) for _ in range(4))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        outputs, state = self.sequence(x[:, None], state)
        return outputs[:, 0], state

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        x = self.input(x)
        normalized = self.attention_norm(x)
        cached = torch.stack([self.key(normalized), self.value(normalized)], dim=2)  # (b, t, 2, H)
        steps, earlier = x.shape[1], 0
        # The number of tokens that exist: the cached tokens and the tokens of these steps.
        known = torch.full_like(x[:, 0, :1], steps)
        if state is not None:
            cached = torch.cat([state[:, :-1].view(x.shape[0], self.window, 2, -1), cached], dim=1)
            earlier, known = self.window, known + state[:, -1:]
        y = x + self.output(self.attention(self.query(normalized), cached, earlier, known))
        missing = max(0, self.window - cached.shape[1])
        cache = nn.functional.pad(cached[:, -self.window :], (0, 0, 0, 0, missing, 0)).flatten(1)
        return self.add_feed_forward(y), torch.cat([cache, known.clamp(max=self.window)], dim=-1)

    def attention(self, queries: Tensor, cached: Tensor, earlier: int, known: Tensor) -> Tensor:
        """Return the result of attention for each query, (b, t, H).

        `queries` has shape (b, t, H). `cached` has shape (b, earlier + t, 2, H), and contains the keys and values of
        `earlier` cached tokens and of the t current tokens. Only the last `known`, (b, 1), of these tokens exist.
        """
        total = cached.shape[1]
        index = torch.arange(total, device=cached.device)
        own = index[earlier:, None]
        visible = (index <= own) & (index > own - self.window) & (index >= total - known[:, :, None])  # (b, t, total)
        keys, values = (self.split_heads(part) for part in cached.unbind(dim=2))
        rotated = rotate(self.split_heads(queries), index[earlier:]), rotate(keys, index)
        mixed = nn.functional.scaled_dot_product_attention(*rotated, values, attn_mask=visible[:, None])
        return mixed.transpose(1, 2).flatten(2)

    def split_heads(self, x: Tensor) -> Tensor:
        """Split (b, t, H) into heads, (b, heads, t, H / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate each pair (x_i, x_(i + d/2)) by the angle position · base^(-2i/d). `x` has shape (b, heads, t, d).

    After the rotation, products of queries and keys depend only on their distance. Hence positions may be counted from
    any token.
    """
    half = x.shape[-1] // 2
    frequencies = ROTARY_BASE ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = positions[:, None] * frequencies  # (t, d/2)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
