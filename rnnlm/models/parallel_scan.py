"""The parallel scan, which computes t steps of a linear recurrence in log2(t) passes (Hillis and Steele 1986)."""

import torch
from torch import Tensor

from .cell import Cell


class ScannedCell(Cell):
    """The layer h' = keep ⊙ h + add, where keep and add do not depend on the state. Training needs no loop over time.

    The state and the output are both h.
    """

    def keep_and_add(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keep and add, which have shape (…, H) each, for the inputs x (…, input)."""
        raise NotImplementedError

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        keep, add = self.keep_and_add(x)
        h = keep * state + add
        return h, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs = parallel_scan(*self.keep_and_add(x), self.initial_state(x) if state is None else state)
        return outputs, outputs[:, -1]


def parallel_scan(keep: Tensor, add: Tensor, initial: Tensor) -> Tensor:
    """Return h_t = keep_t ⊙ h_(t-1) + add_t for all t, (b, t, H).

    `keep` and `add` have shape (b, t, H), and `initial`, (b, H), is h before the first step. The scan makes one pass
    for each distance d = 1, 2, 4, …. After the pass with distance d, the values of `keep` and `add` at each step
    combine the last 2 d steps.
    """
    add = torch.cat([add[:, :1] + keep[:, :1] * initial[:, None], add[:, 1:]], dim=1)
    distance = 1
    while distance < add.shape[1]:
        add = torch.cat([add[:, :distance], add[:, distance:] + keep[:, distance:] * add[:, :-distance]], dim=1)
        keep = torch.cat([keep[:, :distance], keep[:, distance:] * keep[:, :-distance]], dim=1)
        distance *= 2
    return add
