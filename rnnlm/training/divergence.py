"""Detection of divergence: a loss or gradient is not finite, or the loss is far above that of a uniform prediction."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

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
    """A check of several steps at a time, so that the training loop does not wait for the device after every step.

    Training has diverged if a loss exceeds `loss_limit`, in nats per token.
    """

    loss_limit: float = math.inf
    # The number, loss and gradient norm of each step since the last check. Loss and norm are still on the device.
    unchecked: list[tuple[int, Tensor, Tensor]] = field(default_factory=list)

    def add(self, step: int, loss: Tensor, norm: Tensor) -> None:
        """Add the results of a step, and check all steps if MAXIMUM_UNCHECKED_STEPS are waiting."""
        self.unchecked.append((step, loss, norm))
        if len(self.unchecked) >= MAXIMUM_UNCHECKED_STEPS:
            self.check()

    def check(self) -> None:
        """Wait for the results on the device. Raise DivergedError for the first diverged step since the last check."""
        if not self.unchecked:
            return
        steps, losses, norms = zip(*self.unchecked, strict=True)
        self.forget()
        for step, loss, norm in zip(steps, torch.stack(losses).tolist(), torch.stack(norms).tolist(), strict=True):
            if not (math.isfinite(norm) and math.isfinite(loss) and loss <= self.loss_limit):
                raise DivergedError(step, loss, norm)

    def forget(self) -> None:
        """Discard the unchecked steps, because training resumes from an earlier checkpoint."""
        self.unchecked = []


def check_weights(model: nn.Module, step: int) -> None:
    """Raise DivergedError if any weight of the model is not finite."""
    weights = (value for value in model.state_dict().values() if value.is_floating_point())
    if not all(bool(value.isfinite().all()) for value in weights):
        raise DivergedError(step, math.nan, math.nan)
