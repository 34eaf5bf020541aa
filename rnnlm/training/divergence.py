"""Divergence of training: a loss or a gradient that is not finite, or a loss far above that of a uniform guess."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rnnlm.errors import TrainingError

MAXIMUM_UNCHECKED_STEPS = 1_000


class DivergedError(TrainingError):
    def __init__(self, step: int, loss: float, norm: float) -> None:
        super().__init__(
            f"training diverged at step {step}: loss {loss}, gradient norm {norm};\n"
            "lower training.optimizer.learning_rate or .clip_norm, use model.nonlinearity=tanh, or raise\n"
            "training.divergence.retries: each retry rolls back to the last good checkpoint with half the learning rate"
        )
        self.step = step


@dataclass
class DivergenceCheck:
    """Checks the steps since the last check together, so that no step waits for the device.

    loss_limit: nats per token; training has diverged above it.
    """

    loss_limit: float = math.inf
    unchecked: list[tuple[int, Tensor, Tensor]] = field(default_factory=list)  # step, loss and norm, on the device

    def add(self, step: int, loss: Tensor, norm: Tensor) -> None:
        """Note the results of a step. DivergedError if many wait for a check and one of them is bad."""
        self.unchecked.append((step, loss, norm))
        if len(self.unchecked) >= MAXIMUM_UNCHECKED_STEPS:
            self.check()

    def check(self) -> None:
        """Wait for the device. DivergedError with the first bad step since the last check."""
        if not self.unchecked:
            return
        steps, losses, norms = zip(*self.unchecked, strict=True)
        self.forget()
        for step, loss, norm in zip(steps, torch.stack(losses).tolist(), torch.stack(norms).tolist(), strict=True):
            if not (math.isfinite(norm) and math.isfinite(loss) and loss <= self.loss_limit):
                raise DivergedError(step, loss, norm)

    def forget(self) -> None:
        """Forget the steps that were not checked: training goes back to before them."""
        self.unchecked = []
