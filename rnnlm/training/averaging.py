"""Weight averaging: the average of the weights is evaluated and saved, while training continues with the weights.

The kind `mean` is the running mean of the weights (Polyak and Juditsky 1992; Merity, Keskar and Socher 2018 use it for
language models and start it when the validation loss stalls). The kind `exponential` is an exponential moving average.
Both kinds include the weights of every `every_steps`-th step only, because neighbouring steps differ little.
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
    """An average of a model's weights, kept on the model's device.

    The first update follows step `start_step` + 1, and further updates follow every `every`-th step after that. Hence
    the average exists in every run with more than `start_step` steps.
    """

    def __init__(self, model: nn.Module, start_step: int, every: int = 1, decay: float | None = None) -> None:
        """Prepare an average that begins after `start_step`.

        `decay` is the decay rate of the exponential average per update. If it is None, the average is the running mean.
        """
        self.start_step = start_step
        self.every = every
        formula = get_swa_multi_avg_fn() if decay is None else get_ema_multi_avg_fn(decay)
        # AveragedModel counts its updates on the CPU if it is given a formula, so that no update waits for a GPU.
        self.averaged = AveragedModel(model, multi_avg_fn=formula)

    def update(self, model: nn.Module, step: int) -> None:
        """Include the model's weights in the average if an update is due after `step` optimizer steps."""
        if step > self.start_step and (step - self.start_step - 1) % self.every == 0:
            self.averaged.update_parameters(model)

    @property
    def updates(self) -> int:
        return int(self.averaged.n_averaged)

    def warn_if_unused(self) -> None:
        """Log a warning if training has ended before the first update of the average."""
        if not self.updates:
            logger.warning(
                "training: no weights were averaged, because training ended before step %d "
                "(training.averaging.start_share); the weights are saved without averaging",
                self.start_step + 1,
            )

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Replace the model's weights by their average inside the context, unless no update has taken place yet.

        The context only swaps the storages of the tensors. After it, the model has exactly its former weights, and
        training continues with the same bits as without the context.
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
        """Return copies of the averaged weights. Tied weights occur once, because safetensors refuses shared memory."""
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
