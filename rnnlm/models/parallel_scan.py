"""The parallel scan: a linear recurrence over t steps in log2(t) products (Hillis and Steele 1986)."""

import torch
from torch import Tensor

from .cell import Cell


class ScannedCell(Cell):
    """h' = keep ⊙ h + add, where keep and add do not read the state, so that training needs no loop over time.

    The state and the output are both h.
    """

    def keep_and_add(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the factor of the state and what is added to it, each (…, H). x: (…, input)."""
        raise NotImplementedError

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        keep, add = self.keep_and_add(x)
        h = keep * state + add
        return h, h

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs = parallel_scan(*self.keep_and_add(x), self.initial_state(x) if state is None else state)
        return outputs, outputs[:, -1]


def parallel_scan(keep: Tensor, add: Tensor, initial: Tensor) -> Tensor:
    """Compute h_t = keep_t ⊙ h_(t-1) + add_t for all t.

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
