"""All that decides how training goes on from here: what a checkpoint holds."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.training.distributed.process_group import ALONE, World
from rnnlm.training.regularizers import Regularizers
from rnnlm.training.schedules import Schedule
from rnnlm.training.seeding import random_states, set_random_states


class Stateful(Protocol):
    """A part of training with a past. Its state is a tree of dicts, lists, tensors and JSON's plain values."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@dataclass
class TrainingState:
    """Training between two steps. The evaluation due at its step, if any, is still to come."""

    model: ElmanLanguageModel
    optimizer: Optimizer
    schedule: Schedule
    regularizers: Regularizers = field(default_factory=Regularizers)
    world: World = ALONE  # whose processes hold the same state, but for `carried`
    others: dict[str, Stateful] = field(default_factory=dict)  # whatever else has a past
    step: int = 0  # optimiser steps done
    tokens: int = 0  # predicted tokens trained on
    batches: int = 0  # taken from the feed, over all epochs
    setbacks: int = 0  # how often training went back after it had diverged
    carried: Tensor | None = None  # (b, L, H) after this process's rows of the last batch
    best_perplexity: float | None = None  # None: not yet evaluated
    best_weights: dict[str, Tensor] | None = None  # on the CPU

    @property
    def parts(self) -> dict[str, Stateful]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "regularizers": self.regularizers,
            **self.others,
        }

    def state_dict(self) -> dict[str, Any]:
        """Every process must ask for it at the same step, and gets the same."""
        return {
            "step": self.step,
            "tokens": self.tokens,
            "batches": self.batches,
            "setbacks": self.setbacks,
            "carried": None if self.carried is None else self.world.rows(self.carried),
            "best_perplexity": self.best_perplexity,
            "best_weights": self.best_weights,
            "random": random_states(),
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put everything back, the global random states too. The model must be on its device already."""
        self.step = state["step"]
        self.tokens = state["tokens"]
        self.batches = state["batches"]
        self.setbacks = state["setbacks"]
        carried = state["carried"]
        mine = slice(self.world.rank, None, self.world.size)  # as Batch.share deals out rows
        self.carried = None if carried is None else carried[mine].to(self.model.head.weight.device)
        self.best_perplexity = state["best_perplexity"]
        self.best_weights = state["best_weights"]
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        set_random_states(state["random"])

    def remember_if_best(self, perplexity: float) -> None:
        if self.best_perplexity is None or perplexity < self.best_perplexity:
            self.best_perplexity, self.best_weights = perplexity, copy_of(self.model)


def copy_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights on the CPU, not shared with the model."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
