"""Detect a NaN or exploding loss early, report it with advice, and optionally roll back."""

import logging
import math

import torch
from torch import Tensor

from rnnlm.errors import TrainingError
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.checkpointing.training_state import TrainingState

logger = logging.getLogger(__name__)
MAXIMUM_UNCHECKED_STEPS = 1_000


class DivergedError(TrainingError):
    def __init__(self, step: int, loss: float, norm: float) -> None:
        super().__init__(
            f"training diverged at step {step}: loss {loss}, gradient norm {norm};\n"
            "lower training.optimizer.learning_rate or .clip_norm, use model.nonlinearity=tanh, or raise\n"
            "training.divergence.retries: each retry rolls back to the last good checkpoint with half the learning rate"
        )
        self.step = step


class DivergenceMonitor:
    """Collects losses and gradient norms on the device and checks them together, so that no step waits for it."""

    def __init__(self, loss_limit: float) -> None:
        self.loss_limit = loss_limit  # nats per token
        self.unchecked: list[tuple[int, Tensor, Tensor]] = []

    def note(self, step: int, loss: Tensor, norm: Tensor) -> None:
        self.unchecked.append((step, loss, norm))
        if len(self.unchecked) >= MAXIMUM_UNCHECKED_STEPS:
            self.check()

    def check(self) -> None:
        """Wait for the device. DivergedError with the first bad step."""
        if not self.unchecked:
            return
        steps, losses, norms = zip(*self.unchecked, strict=True)
        self.unchecked = []
        values = zip(steps, torch.stack(losses).tolist(), torch.stack(norms).tolist(), strict=True)
        for step, loss, norm in values:
            if not (math.isfinite(norm) and loss <= self.loss_limit and math.isfinite(loss)):
                raise DivergedError(step, loss, norm)


def all_finite(state: TrainingState) -> bool:
    """True if all weights are finite."""
    return all(bool(value.isfinite().all()) for value in state.model.state_dict().values() if value.is_floating_point())


def roll_back_training(
    state: TrainingState, checkpoints: Checkpoints | None, retries: int, error: DivergedError
) -> bool:
    """Load the last good checkpoint, with half the learning rate of the failed attempt. False if no retry is left."""
    rollbacks = state.rollbacks + 1
    saved = checkpoints.load_newest() if checkpoints and rollbacks <= retries else None
    if saved is None:
        return False
    state.load_state_dict(saved)
    scale_learning_rate(state, 0.5 ** (rollbacks - state.rollbacks))
    state.rollbacks = rollbacks
    logger.warning(
        "%s\ntraining rolls back to step %d with half the learning rate (retry %d of %d)",
        str(error).splitlines()[0].rstrip(";"),
        state.step,
        rollbacks,
        retries,
    )
    return True


def scale_learning_rate(state: TrainingState, factor: float) -> None:
    """Scale the learning rate of this step and of all later ones."""
    for group in state.optimizer.param_groups:
        group["lr"] *= factor
    state.schedule.base_lrs = [rate * factor for rate in state.schedule.base_lrs]
