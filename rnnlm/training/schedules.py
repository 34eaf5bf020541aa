"""Learning-rate schedules: a linear warm-up, followed by a constant, linear, cosine or plateau schedule."""

import math
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from rnnlm.config.training_config import ScheduleConfig


class RateFactor:
    """The factor by which the peak learning rate is multiplied at each step.

    It is an object and not a function, so that LambdaLR.state_dict() stores its attributes, which are JSON values.
    """

    def __init__(self, config: ScheduleConfig, total_steps: int) -> None:
        self.kind = config.kind
        self.total_steps = total_steps
        self.warmup = math.ceil(config.warmup_share * total_steps)  # The number of warm-up steps.
        self.plateau_factor = config.plateau_factor
        self.plateaus = 0  # The number of plateaus of the validation loss so far.

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
    """A counter that is exhausted after `limit` successive evaluations without a new lowest value.

    If `limit` is None, the counter is never exhausted.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.best: float | None = None
        self.waited = 0  # The number of evaluations since the lowest value or the last restart.

    def observe(self, value: float) -> None:
        if self.best is None or value < self.best:
            self.best, self.waited = value, 0
        else:
            self.waited += 1

    @property
    def exhausted(self) -> bool:
        return self.limit is not None and self.waited >= self.limit

    def restart(self) -> None:
        """Set the number of evaluations without a new lowest value to 0. The lowest value is kept."""
        self.waited = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]


class Schedule(LambdaLR):
    """A learning-rate scheduler that applies RateFactor. The training loop reports validation losses to `observe`.

    torch's ReduceLROnPlateau is not used, because it cannot be combined with a warm-up.
    """

    def __init__(self, optimizer: Optimizer, config: ScheduleConfig, total_steps: int) -> None:
        self.factor = RateFactor(config, total_steps)
        self.patience = Patience(config.plateau_patience)
        super().__init__(optimizer, self.factor)  # All parameter groups have the same factor.

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        state = {name: value for name, value in super().state_dict().items() if name != "factor"}
        return state | {"patience": self.patience.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.patience.load_state_dict(state_dict["patience"])
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "patience"})

    def scale_rates(self, factor: float) -> None:
        """Multiply the learning rate of this step and of all further steps by a factor."""
        for group in self.optimizer.param_groups:
            group["lr"] *= factor
        self.base_lrs = [rate * factor for rate in self.base_lrs]

    def observe(self, nll_nats_per_token: float) -> None:
        """Record a validation loss. If the loss is on a plateau, lower the learning rate from the next step on."""
        if self.last_epoch < self.factor.warmup:
            return  # During the warm-up, the loss does not indicate whether the peak rate is too high.
        self.patience.observe(nll_nats_per_token)
        if self.patience.exhausted:
            self.patience.restart()
            self.factor.plateaus += 1
        for group, peak in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = peak * self.factor(self.last_epoch)


def validation_steps(total_steps: int, count: int) -> frozenset[int]:
    """Return `count` - 1 evenly spaced steps after which to validate. One more validation follows the last step."""
    return frozenset(total_steps * index // count for index in range(1, count)) - {0}
