"""Weight averaging: the averaged weights are evaluated and saved while training continues with its own.

`mean` is the running mean of the weights (Polyak and Juditsky 1992; for language models Merity, Keskar and Socher 2018,
who start it when training stalls). `exponential` is the exponential moving average. Both take every `every_steps`-th
step into account, because neighbouring steps differ little.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from rnnlm.config.training_config import AveragingConfig

logger = logging.getLogger(__name__)


class WeightAveraging:
    """Averaged weights on the model's device, updated after step start_step + 1 and every `every`-th step from there.

    So every run that gets past start_step has averaged something.
    """

    def __init__(self, model: nn.Module, start_step: int, every: int = 1, decay: float | None = None) -> None:
        """Begin to average after start_step.

        decay: of the exponential average, per update; None: the mean of all updates.
        """
        self.start_step = start_step
        self.every = every
        formula = get_swa_multi_avg_fn() if decay is None else get_ema_multi_avg_fn(decay)
        self.averaged = AveragedModel(
            model, multi_avg_fn=formula
        )  # this formula's counter is on the CPU, so nothing waits for a GPU

    def update(self, model: nn.Module, step: int) -> None:
        """Take the weights into the average. step: optimizer steps done. The first update copies them."""
        if step > self.start_step and (step - self.start_step - 1) % self.every == 0:
            self.averaged.update_parameters(model)

    @property
    def updates(self) -> int:
        return int(self.averaged.n_averaged)

    def warn_if_unused(self) -> None:
        """Call it after training."""
        if not self.updates:
            logger.warning(
                "training: no weights were averaged, because training ended before step %d "
                "(training.averaging.start_share); the trained weights are saved",
                self.start_step + 1,
            )

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averaged weights inside the context, or its own before the first update.

        Only storages are swapped, nothing is computed, so training continues bit by bit as without.
        """
        if not self.updates:
            yield
            return
        self.swap(model)
        try:
            yield
        finally:
            self.swap(model)

    def swap(self, model: nn.Module) -> None:
        for own, average in zip(model.parameters(), self.averaged.module.parameters(), strict=True):
            own.data, average.data = average.data, own.data

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the averaged weights. Tied weights occur once, so that safetensors can store them."""
        weights = {name: value.detach().clone() for name, value in self.averaged.module.named_parameters()}
        return {"updates": self.averaged.n_averaged.clone(), **weights}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.averaged.n_averaged.copy_(state["updates"])
        for name, value in self.averaged.module.named_parameters():
            value.copy_(state[name])


def make_averaging(model: nn.Module, config: AveragingConfig, total_steps: int) -> WeightAveraging | None:
    if config.kind == "none":
        return None
    decay = config.decay if config.kind == "exponential" else None
    return WeightAveraging(model, averaging_start(config, total_steps), config.every_steps, decay)


def averaging_start(config: AveragingConfig, total_steps: int) -> int:
    return math.floor(config.start_share * total_steps)
