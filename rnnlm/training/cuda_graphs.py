"""Steps recorded as CUDA graphs and replayed: for small models, where starting kernels takes longer than they do.

A graph is a list of kernels with fixed addresses. So each shape of a step's arguments has its own, with copies of the
arguments that every replay overwrites. The first step of a shape is taken as ever, which also warms up the
libraries; the second is recorded; from then on it is replayed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rnnlm.training.distributed.process_group import World
from rnnlm.training.optimizer_step import Part, Step, update
from rnnlm.training.tree_map import changed, tensors

SHAPES = 128  # recorded at most; steps of other shapes are taken as ever


class Recorder:
    """An Update: stepping.update on a GPU, for one process."""

    def __init__(self) -> None:
        self.recordings: dict[Any, Recording | None] = {}  # by shape; None: seen once
        self.addresses: list[int] = []
        self.pool: Any = None

    def __call__(
        self, batch_loss: nn.Module, optimizer: Optimizer, parts: list[Part], clip_norm: float, world: World
    ) -> Step:
        if (addresses := addresses_of(batch_loss, optimizer)) != self.addresses:
            # A checkpoint was put back, or the optimizer made its moments: what was recorded writes elsewhere.
            self.recordings, self.addresses, self.pool = {}, addresses, torch.cuda.graph_pool_handle()
        shape = shape_of(parts)
        recording = self.recordings.get(shape)
        if recording is None:
            if shape not in self.recordings or sum(map(bool, self.recordings.values())) >= SHAPES:
                self.recordings[shape] = None
                return update(batch_loss, optimizer, parts, clip_norm, world)
            recording = self.recordings[shape] = Recording(batch_loss, optimizer, parts, clip_norm, world, self.pool)
        return recording.replay(parts)


class Recording:
    """One graph, its arguments, and its results."""

    def __init__(
        self,
        batch_loss: nn.Module,
        optimizer: Optimizer,
        parts: list[Part],
        clip_norm: float,
        world: World,
        pool: Any,
    ) -> None:
        self.optimizer = optimizer
        self.parameters = list(batch_loss.parameters())
        self.parts = changed(parts, torch.clone)
        self.rates = [torch.tensor(group["lr"], device=self.parameters[0].device) for group in optimizer.param_groups]
        self.graph = torch.cuda.CUDAGraph()
        with recordable(optimizer, self.rates), torch.cuda.graph(self.graph, pool=pool):
            self.step = update(batch_loss, optimizer, self.parts, clip_norm, world)
        self.gradients = [parameter.grad for parameter in self.parameters]

    def replay(self, parts: list[Part]) -> Step:
        for own, given in zip(tensors(self.parts), tensors(parts), strict=True):
            own.copy_(given, non_blocking=True)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient  # whoever looks at gradients sees those of this step
        return changed(self.step, torch.clone)  # the graphs share their memory


@contextmanager
def recordable(optimizer: Optimizer, rates: list[Tensor]) -> Iterator[None]:
    """For the block the learning rates are tensors, which a graph reads anew at each replay."""
    kept = [(group["lr"], group["capturable"]) for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"], group["capturable"] = rate, True
    try:
        yield
    finally:
        for group, (rate, capturable) in zip(optimizer.param_groups, kept, strict=True):
            group["lr"], group["capturable"] = rate, capturable


def addresses_of(batch_loss: nn.Module, optimizer: Optimizer) -> list[int]:
    """Where weights and moments lie."""
    moments = (value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor))
    return [tensor.data_ptr() for tensor in (*batch_loss.parameters(), *moments)]


def shape_of(parts: list[Part]) -> object:
    """What two steps must share to be the same kernels: all shapes, and which tensors there are."""
    return tuple((tuple(map(tuple, (t.shape for t in tensors(part)))), part.state is None) for part in parts)
