"""The process group of distributed training: the rank of this process, and the collectives."""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rnnlm.storage.records import ProcessChange
from rnnlm.training.job import STORE

logger = logging.getLogger(__name__)

# The timeout of collectives. It must exceed the time of validations and samples, which rank 0 computes alone. A dead
# process is detected earlier, because its connections close and torchrun stops the other processes.
TIMEOUT = timedelta(hours=6)


@dataclass(frozen=True)
class ProcessGroup:
    """The rank of this process among `size` processes. All methods are collectives: every rank must call them."""

    rank: int = 0
    size: int = 1
    size_at_start: int | None = None  # The number of processes that began the run. None means that it equals `size`.

    @property
    def is_main(self) -> bool:
        """True on rank 0, which writes files, samples and logs.

        Unlike the methods, this property is not a collective.
        """
        return self.rank == 0

    def data_parallel(self, module: nn.Module) -> nn.Module:
        """Return the module, wrapped so that its backward pass averages gradients over all ranks.

        All ranks start with the parameters of rank 0.
        """
        if self.size == 1:
            return module
        # Later versions of torch will rename broadcast_buffers to forward_sync_buffers, which 2.11 does not accept.
        return DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)

    def no_sync(self, module: nn.Module, enabled: bool) -> AbstractContextManager[Any]:
        """Return a context in which gradients are not averaged over the ranks if `enabled` is true.

        `module` is a module that data_parallel() returned.
        """
        return module.no_sync() if enabled and isinstance(module, DistributedDataParallel) else nullcontext()

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of `value` over all ranks, on the device of `value`."""
        if self.size == 1:
            return value
        value = value.clone()
        dist.all_reduce(value)
        return value

    def max(self, number: int) -> int:
        """Return the largest `number` of all ranks."""
        if self.size == 1:
            return number
        value = torch.tensor(number)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return int(value)

    def gather_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks on the CPU, in the order that they had before Batch.share distributed them."""
        if self.size == 1:
            return rows
        rows = rows.to("cpu")
        counts = [torch.zeros((), dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(counts, torch.tensor(len(rows)))
        padded = torch.cat([rows, rows.new_zeros(int(max(counts)) - len(rows), *rows.shape[1:])])
        gathered = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(gathered, padded)
        interleaved = torch.stack(gathered, dim=1).flatten(0, 1)  # Row i of rank r is at index i * size + r.
        return interleaved[: int(sum(counts))]

    def barrier(self) -> None:
        """Wait until all ranks have reached this call."""
        self.max(0)


SINGLE_PROCESS = ProcessGroup()


class ProcessChanges:
    """The steps at which the number of processes changed, in order. The list is empty if the number never changed."""

    def __init__(self, process_group: ProcessGroup) -> None:
        self.process_group = process_group
        self.changes: list[ProcessChange] = []
        self.note(step=0)

    def note(self, step: int) -> None:
        """Record a change at `step` if a different number of processes computed the previous steps."""
        size, at_start = self.process_group.size, self.process_group.size_at_start
        before = self.changes[-1].processes if self.changes else at_start or size
        if before != size:
            self.changes.append(ProcessChange(step=step, processes=size))

    def warn_of_change_at(self, step: int) -> None:
        if self.changes and self.changes[-1].step == step:
            logger.warning(
                "training: the number of processes is %d from step %d on; the result will equal that of an unchanged "
                "number\nof processes up to rounding, not bit by bit",
                self.changes[-1].processes,
                step,
            )

    def state(self) -> list[dict[str, int]]:
        """Return the changes as JSON values."""
        return [change.model_dump() for change in self.changes]

    def load(self, state: Iterable[dict[str, int]], step: int) -> None:
        """Restore the changes in a checkpoint.

        Record another one at `step` if the current number of processes differs.
        """
        self.changes = [ProcessChange(**change) for change in state]
        self.note(step)


def choose_backend(use_gpu: bool) -> str:
    return "cpu:gloo,cuda:nccl" if use_gpu else "gloo"


@contextmanager
def join_process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the process group for which this process was started, with gloo between CPUs and NCCL between GPUs.

    On a single machine the processes connect through a file. torch's TCP store is not used there, because it listens on
    all network interfaces and unpickles whatever it receives. On several machines the processes use the TCP store at
    their rendezvous address. The workers of Ray Train are already in a group, which Ray Train destroys itself.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if dist.is_initialized():
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
        return
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield SINGLE_PROCESS
        return
    backend = choose_backend(use_gpu=device.type == "cuda")
    path = os.environ.get(STORE)
    if path is None:
        dist.init_process_group(backend, timeout=TIMEOUT)
    else:  # Each restart of the processes uses a new file, because the old file lists processes that have ended.
        store = dist.FileStore(f"{path}-{os.environ['TORCHELASTIC_RESTART_COUNT']}", size)
        dist.init_process_group(backend, store=store, rank=int(os.environ["RANK"]), world_size=size, timeout=TIMEOUT)
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
