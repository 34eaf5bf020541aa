"""The learning rate over time."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from rnnlm.config import TrainingConfig


class RateFactor:
    """Step → share of the peak rate: linear warm-up from 1/warmup, then constant, linear or cosine to 0, or plateau.

    plateau: each time the validation loss has not improved for `patience` evaluations, the rate is multiplied by
    plateau_factor. torch's ReduceLROnPlateau does this, too, but cannot be joined with a warm-up.
    An object and not a closure: LambdaLR.state_dict() then holds its attributes, all of them JSON.
    """

    def __init__(self, config: TrainingConfig, total_steps: int) -> None:
        self.schedule = config.schedule.kind
        self.total_steps = total_steps
        self.warmup = math.ceil(config.schedule.warmup_share * total_steps)
        self.plateau_factor = config.schedule.plateau_factor
        self.patience = config.schedule.plateau_patience
        self.best: float | None = None  # validation loss after warm-up, nats per token
        self.waited = 0  # evaluations since the best, or since the rate was lowered
        self.lowered = 0  # times

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        if self.schedule == "constant":
            return 1.0
        if self.schedule == "plateau":
            return self.plateau_factor**self.lowered
        done = min(1.0, (step - self.warmup) / max(1, self.total_steps - self.warmup))
        return 1.0 - done if self.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))

    def observe(self, step: int, nll_nats_per_token: float) -> None:
        """The validation loss after `step` steps. One from the warm-up says nothing of the peak rate."""
        if step < self.warmup:
            return
        if self.best is None or nll_nats_per_token < self.best:
            self.best, self.waited = nll_nats_per_token, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.lowered, self.waited = self.lowered + 1, 0


class Schedule(LambdaLR):
    """LambdaLR that can be told how validation goes; state_dict() is JSON, that of a plateau included."""

    def __init__(self, optimizer: Optimizer, factor: RateFactor) -> None:
        super().__init__(optimizer, factor)  # all parameter groups share the one factor
        self.factor = factor

    def state_dict(self) -> dict[str, object]:
        return {name: value for name, value in super().state_dict().items() if name != "factor"}

    def observe(self, nll_nats_per_token: float) -> None:
        """A lowered rate holds from the very next step."""
        self.factor.observe(self.last_epoch, nll_nats_per_token)
        for group, peak in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = peak * self.factor(self.last_epoch)


def make_schedule(optimizer: Optimizer, config: TrainingConfig, total_steps: int) -> Schedule:
    return Schedule(optimizer, RateFactor(config, total_steps))
