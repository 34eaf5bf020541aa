"""Detect a NaN or exploding loss early, report it with advice, and optionally roll back."""

import logging
import math

import torch
from torch import Tensor

from rnnlm.errors import TrainingError
from rnnlm.training.checkpointing.checkpoints import Checkpoints
from rnnlm.training.checkpointing.training_state import TrainingState

logger = logging.getLogger(__name__)
STEPS_UNSEEN = 1_000  # at most: then losses are looked at, though it means to wait for the device


class DivergedError(TrainingError):
    def __init__(self, step: int, loss: float, norm: float) -> None:
        super().__init__(
            f"training diverged at step {step}: loss {loss}, gradient norm {norm};\n"
            "lower training.optimizer.learning_rate or .clip_norm, use model.nonlinearity=tanh, or raise\n"
            "training.divergence.retries: each retry rolls back to the last good checkpoint with half the learning rate"
        )
        self.step = step


class Watch:
    """Losses and norms of the last steps, left on the device until somebody asks: no step waits for it."""

    def __init__(self, loss_limit: float) -> None:
        self.loss_limit = loss_limit  # nats per token
        self.unseen: list[tuple[int, Tensor, Tensor]] = []

    def note(self, step: int, loss: Tensor, norm: Tensor) -> None:
        self.unseen.append((step, loss, norm))
        if len(self.unseen) >= STEPS_UNSEEN:
            self.check()

    def check(self) -> None:
        """Wait for the device. DivergedError with the first step that went wrong."""
        if not self.unseen:
            return
        steps, losses, norms = zip(*self.unseen, strict=True)
        self.unseen = []
        values = zip(steps, torch.stack(losses).tolist(), torch.stack(norms).tolist(), strict=True)
        for step, loss, norm in values:
            if not (math.isfinite(norm) and loss <= self.loss_limit and math.isfinite(loss)):
                raise DivergedError(step, loss, norm)


def all_finite(state: TrainingState) -> bool:
    """True where every weight is a number."""
    return all(bool(value.isfinite().all()) for value in state.model.state_dict().values() if value.is_floating_point())


def went_back(state: TrainingState, checkpoints: Checkpoints | None, retries: int, error: DivergedError) -> bool:
    """Put the last good checkpoint back with half the learning rate of the attempt that failed; False: no more."""
    setbacks = state.setbacks + 1
    saved = checkpoints.newest_good() if checkpoints and setbacks <= retries else None
    if saved is None:
        return False
    state.load_state_dict(saved)
    slow_down(state, 0.5 ** (setbacks - state.setbacks))
    state.setbacks = setbacks
    logger.warning(
        "%s\ntraining goes back to step %d with half the learning rate (%d of %d times)",
        str(error).splitlines()[0].rstrip(";"),
        state.step,
        setbacks,
        retries,
    )
    return True


def slow_down(state: TrainingState, factor: float) -> None:
    """Scale the learning rate of this step and of all to come."""
    for group in state.optimizer.param_groups:
        group["lr"] *= factor
    state.schedule.base_lrs = [rate * factor for rate in state.schedule.base_lrs]
