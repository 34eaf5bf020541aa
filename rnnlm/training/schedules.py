"""The learning rate over time."""

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from rnnlm.config import TrainingConfig


def make_schedule(optimizer: Optimizer, config: TrainingConfig, total_steps: int) -> LambdaLR:
    return LambdaLR(optimizer, rate_factor(config, total_steps))


def rate_factor(config: TrainingConfig, total_steps: int) -> Callable[[int], float]:
    """Step → share of the peak rate: linear warm-up from 1/warmup, then constant, or linear or cosine to 0."""
    warmup = math.ceil(config.warmup_share * total_steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        if config.schedule == "constant":
            return 1.0
        done = min(1.0, (step - warmup) / max(1, total_steps - warmup))
        return 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))

    return factor
