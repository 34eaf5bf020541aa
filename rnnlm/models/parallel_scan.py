"""The parallel scan: a linear recurrence over t steps in log2(t) products (Hillis and Steele 1986)."""

import torch
from torch import Tensor


def parallel_scan(keep: Tensor, add: Tensor, initial: Tensor) -> Tensor:
    """h_t = keep_t ⊙ h_(t-1) + add_t for all t.

    keep, add: (b, t, H); initial: (b, H), h before the first step → (b, t, H).

    After the pass with distance d, each step's `keep` and `add` stand for the 2 d steps that end there.
    """
    add = torch.cat([add[:, :1] + keep[:, :1] * initial[:, None], add[:, 1:]], dim=1)
    distance = 1
    while distance < add.shape[1]:
        add = torch.cat([add[:, :distance], add[:, distance:] + keep[:, distance:] * add[:, :-distance]], dim=1)
        keep = torch.cat([keep[:, :distance], keep[:, distance:] * keep[:, :-distance]], dim=1)
        distance *= 2
    return add
