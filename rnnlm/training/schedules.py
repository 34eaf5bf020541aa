"""The learning rate over time: linear warm-up, then constant, linear, cosine or plateau."""

import math
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from rnnlm.config.training_config import ScheduleConfig


class RateFactor:
    """The factor of the peak learning rate at each step.

    An object, not a closure: LambdaLR.state_dict() then stores its attributes, all of which are JSON values.
    """

    def __init__(self, config: ScheduleConfig, total_steps: int) -> None:
        self.kind = config.kind
        self.total_steps = total_steps
        self.warmup = math.ceil(config.warmup_share * total_steps)  # steps
        self.plateau_factor = config.plateau_factor
        self.plateaus = 0  # so far

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        if self.kind == "constant":
            return 1.0
        if self.kind == "plateau":
            return self.plateau_factor**self.plateaus
        progress = min(1.0, (step - self.warmup) / max(1, self.total_steps - self.warmup))
        return 1.0 - progress if self.kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


class Patience:
    """Exhausted after `limit` evaluations in a row without a new lowest value; limit None: never."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.best: float | None = None
        self.waited = 0  # evaluations since the best one or the last restart

    def observe(self, value: float) -> None:
        if self.best is None or value < self.best:
            self.best, self.waited = value, 0
        else:
            self.waited += 1

    @property
    def exhausted(self) -> bool:
        return self.limit is not None and self.waited >= self.limit

    def restart(self) -> None:
        """Count again from 0; the best value stays."""
        self.waited = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]


class Schedule(LambdaLR):
    """RateFactor applied to an optimizer; validation losses reach it through `observe`.

    torch's ReduceLROnPlateau cannot be combined with a warm-up.
    """

    def __init__(self, optimizer: Optimizer, config: ScheduleConfig, total_steps: int) -> None:
        self.factor = RateFactor(config, total_steps)
        self.patience = Patience(config.plateau_patience)
        super().__init__(optimizer, self.factor)  # one factor for all parameter groups

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        state = {name: value for name, value in super().state_dict().items() if name != "factor"}
        return state | {"patience": self.patience.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.patience.load_state_dict(state_dict["patience"])
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "patience"})

    def observe(self, nll_nats_per_token: float) -> None:
        """Take the validation loss into account. A lowered rate holds from the next step."""
        if self.last_epoch < self.factor.warmup:
            return  # a loss at a lower rate says nothing about the peak rate
        self.patience.observe(nll_nats_per_token)
        if self.patience.exhausted:
            self.patience.restart()
            self.factor.plateaus += 1
        for group, peak in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = peak * self.factor(self.last_epoch)


def validation_steps(total_steps: int, count: int) -> frozenset[int]:
    """Return evenly spaced steps after which to validate, without the last step, which the loop adds."""
    return frozenset(total_steps * index // count for index in range(1, count)) - {0}
