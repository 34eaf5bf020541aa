"""The processes that train together: who they are, and all that they say to each other."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

# Longer than rank 0 may need alone, for the validation split of a stream and its samples. That a process has died
# is seen at once: its connections close, and torchrun stops the others.
PATIENCE = timedelta(hours=6)


@dataclass(frozen=True)
class World:
    """One process of `size`. Whatever is asked of a World but rank and size, every process must ask."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """True in the one process that writes files, samples and reports."""
        return self.rank == 0

    def parallel(self, module: nn.Module) -> nn.Module:
        """A module with the same outputs whose backward pass averages the gradients over all processes.

        The parameters become those of rank 0.
        """
        if self.size == 1:
            return module
        # broadcast_buffers is going to be called forward_sync_buffers; torch 2.11 does not know that name yet.
        return DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)

    def gradients_kept_apart(self, module: nn.Module, apart: bool) -> AbstractContextManager[Any]:
        """For the block, if so wished, a module made by `parallel` leaves each process its own gradients."""
        return module.no_sync() if apart and isinstance(module, DistributedDataParallel) else nullcontext()

    def sum(self, value: Tensor) -> Tensor:
        """Over all processes, where the value lies."""
        if self.size == 1:
            return value
        value = value.clone()
        dist.all_reduce(value)
        return value

    def largest(self, number: int) -> int:
        """The largest that any process gives."""
        if self.size == 1:
            return number
        value = torch.tensor(number)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return int(value)

    def rows(self, mine: Tensor) -> Tensor:
        """Rows of all processes, on the CPU, in the order in which Batch.share dealt them out."""
        if self.size == 1:
            return mine
        mine = mine.to("cpu")
        counts = [torch.zeros((), dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(counts, torch.tensor(len(mine)))
        tallest = int(max(counts))
        padded = torch.cat([mine, mine.new_zeros(tallest - len(mine), *mine.shape[1:])])
        gathered = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(gathered, padded)
        dealt = torch.stack(gathered, dim=1).flatten(0, 1)  # row i of rank r at i * size + r
        return dealt[: int(sum(counts))]

    def wait_for_all(self) -> None:
        self.largest(0)


ALONE = World()
STORE = "RNNLM_PROCESS_STORE"  # environment: the file at which the processes of one machine meet


@contextmanager
def joined_world(device: torch.device) -> Iterator[World]:
    """The World of a process that torchrun started: gloo between CPUs, NCCL between GPUs.

    On one machine the processes meet at a file. torch's own store would listen on all interfaces and unpickle what it
    is sent. On several machines they meet at that store, at the rendezvous.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    path = os.environ.get(STORE)
    if path is None:
        dist.init_process_group(backend, timeout=PATIENCE)
    else:  # another file for each restart: the last one names processes that are gone
        store = dist.FileStore(f"{path}-{os.environ['TORCHELASTIC_RESTART_COUNT']}", size)
        dist.init_process_group(backend, store=store, rank=int(os.environ["RANK"]), world_size=size, timeout=PATIENCE)
    try:
        yield World(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
