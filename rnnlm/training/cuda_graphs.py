"""Record training steps as CUDA graphs and replay them: faster for small models, where launching kernels dominates.

A graph is a list of kernels with fixed addresses, so each shape of a step's arguments has its own graph, with copies of
the arguments that every replay overwrites. The first step of a shape runs normally, which also warms up the libraries;
the second is recorded; later ones are replayed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rnnlm.training.optimizer_step import MicroBatch, Step, Updater
from rnnlm.training.tree_map import list_tensors, map_tensors

MAXIMUM_RECORDINGS = 128  # steps of further shapes run normally


@dataclass
class Recorder(Updater):
    """An Updater on a GPU, for a single process, that records its steps and replays them."""

    def __post_init__(self) -> None:
        self.recordings: dict[Any, Recording | None] = {}  # by shape; None: seen once
        self.addresses: list[int] = []
        self.pool: Any = None

    def __call__(self, micro_batches: list[MicroBatch]) -> Step:
        if (addresses := addresses_of(self.batch_loss, self.optimizer)) != self.addresses:
            # A checkpoint was loaded or the optimizer created its moments: existing graphs write elsewhere.
            self.recordings, self.addresses, self.pool = {}, addresses, torch.cuda.graph_pool_handle()
        shape = shape_of(micro_batches)
        recording = self.recordings.get(shape)
        if recording is None:
            if shape not in self.recordings or sum(map(bool, self.recordings.values())) >= MAXIMUM_RECORDINGS:
                self.recordings[shape] = None
                return super().__call__(micro_batches)
            recording = self.recordings[shape] = Recording(super().__call__, self.optimizer, micro_batches, self.pool)
        return recording.replay(micro_batches)


class Recording:
    """A CUDA graph with its arguments and results."""

    def __init__(
        self,
        update: Callable[[list[MicroBatch]], Step],
        optimizer: Optimizer,
        micro_batches: list[MicroBatch],
        pool: Any,
    ) -> None:
        self.optimizer = optimizer
        self.parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.arguments = map_tensors(micro_batches, torch.clone)
        self.rates = [torch.tensor(group["lr"], device=self.parameters[0].device) for group in optimizer.param_groups]
        self.graph = torch.cuda.CUDAGraph()
        with tensor_rates(optimizer, self.rates), torch.cuda.graph(self.graph, pool=pool):
            self.step = update(self.arguments)
        self.gradients = [parameter.grad for parameter in self.parameters]

    def replay(self, micro_batches: list[MicroBatch]) -> Step:
        for argument, given in zip(list_tensors(self.arguments), list_tensors(micro_batches), strict=True):
            argument.copy_(given, non_blocking=True)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient  # those of this step, for the loop's gradient norms
        return map_tensors(self.step, torch.clone)  # graphs share their memory


@contextmanager
def tensor_rates(optimizer: Optimizer, rates: list[Tensor]) -> Iterator[None]:
    """Make the learning rates tensors inside the context, so that each replay of a graph reads them again."""
    before = [(group["lr"], group["capturable"]) for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"], group["capturable"] = rate, True
    try:
        yield
    finally:
        for group, (rate, capturable) in zip(optimizer.param_groups, before, strict=True):
            group["lr"], group["capturable"] = rate, capturable


def addresses_of(batch_loss: nn.Module, optimizer: Optimizer) -> list[int]:
    """Addresses of weights and moments."""
    moments = (value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor))
    return [tensor.data_ptr() for tensor in (*batch_loss.parameters(), *moments)]


def shape_of(micro_batches: list[MicroBatch]) -> object:
    """Equal for two steps that run the same kernels: all shapes, and which tensors are present."""
    return tuple(
        (tuple(tuple(tensor.shape) for tensor in list_tensors(part)), part.state is None) for part in micro_batches
    )
