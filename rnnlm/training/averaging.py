"""Averaged weights: what is evaluated and kept, while training goes on with its own.

The weights enter it after the first step past `averaging_start` and after every `averaging_every`-th from there, the
tenth by default: neighbouring steps differ little. `mean` is their running mean (Polyak and Juditsky 1992, of every
step; for language models Merity, Keskar and Socher 2018, who begin it when training stalls), `exponential` the moving
average that forgets.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from rnnlm.config import TrainingConfig


class WeightAveraging:
    """A second set of weights on the model's device, updated after step start_step + 1 and every `every`-th from there.

    So a run that goes on past start_step, as each does that reaches its end, has averaged something.

    decay: of the exponential average, an update; None: the mean.
    """

    def __init__(self, model: nn.Module, start_step: int, every: int = 1, decay: float | None = None) -> None:
        self.start_step = start_step
        self.every = every
        formula = get_swa_multi_avg_fn() if decay is None else get_ema_multi_avg_fn(decay)
        self.averaged = AveragedModel(model, multi_avg_fn=formula)  # its counter stays on the CPU: no wait for a GPU

    def update(self, model: nn.Module, step: int) -> None:
        """After `step` steps in all. The first update takes the weights as they are."""
        if step > self.start_step and (step - self.start_step - 1) % self.every == 0:
            self.averaged.update_parameters(model)

    @property
    def updates(self) -> int:
        return int(self.averaged.n_averaged)

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """The model has the averaged weights inside, its own again after; before the first update its own.

        Storages change places, nothing is computed: training goes on bit by bit as without.
        """
        if not self.updates:
            yield
            return
        self.exchange(model)
        try:
            yield
        finally:
            self.exchange(model)

    def exchange(self, model: nn.Module) -> None:
        for own, average in zip(model.parameters(), self.averaged.module.parameters(), strict=True):
            own.data, average.data = average.data, own.data

    def state_dict(self) -> dict[str, Tensor]:
        """Copies. Tied weights come once: so that safetensors can store it."""
        weights = {name: value.detach().clone() for name, value in self.averaged.module.named_parameters()}
        return {"updates": self.averaged.n_averaged.clone(), **weights}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """ValueError where it is of another model."""
        own = dict(self.averaged.module.named_parameters())
        if missing := {"updates", *own} ^ set(state):
            raise ValueError(f"averaged weights of another model: {', '.join(sorted(missing)[:3])} on one side alone")
        self.averaged.n_averaged.copy_(state["updates"])
        for name, value in own.items():
            value.copy_(state[name])


def make_averaging(model: nn.Module, config: TrainingConfig, total_steps: int) -> WeightAveraging | None:
    if config.averaging.kind == "none":
        return None
    start = math.floor(config.averaging.start_share * total_steps)
    decay = config.averaging.decay if config.averaging.kind == "exponential" else None
    return WeightAveraging(model, start, config.averaging.every_steps, decay)
