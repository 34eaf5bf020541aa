"""Where training runs."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rnnlm.config import TrainingConfig
from rnnlm.errors import DeviceError

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # as malloc.h has them


def choose_device(name: str) -> torch.device:
    """`auto`: cuda, else mps, else cpu. DeviceError where a named device is absent."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, there in present.items() if there))
    if not present[name]:
        there = ", ".join(device for device, there in present.items() if there)
        raise DeviceError(f"training.device: {name} is not on this machine; there is: {there} (or auto)")
    return torch.device(name)


def device_of_process(name: str) -> torch.device:
    """As choose_device; each of several processes has a GPU of its own. DeviceError where there are too few."""
    device = choose_device(name)
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "mps":
        raise DeviceError("training.device: several processes need cuda or cpu, and mps is neither; set cpu")
    if device.type != "cuda":
        return device
    if local_rank >= torch.cuda.device_count():
        raise DeviceError(
            f"training.distributed.processes: process {local_rank} of this machine has no GPU, there are "
            f"{torch.cuda.device_count()}; set as many processes as GPUs, or training.device=cpu"
        )
    return torch.device("cuda", local_rank)


def keep_freed_memory() -> None:
    """For this process: memory that a step frees stays for the next one, instead of going back to the system.

    A step makes the same large arrays as the one before. From the system every page of them comes anew and zeroed,
    which takes a third of a step's time where the vocabulary is large. Of glibc alone; elsewhere nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)  # large arrays come from the heap, too,
        mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)  # of whose free end 2 GiB stay, the most that it takes


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device. Through pinned memory, so that a GPU need not have finished what it is at."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def precision_of_products(config: TrainingConfig) -> torch.dtype:
    """Of the large products that training does by hand: the losses', on a CPU the layers' too."""
    return torch.bfloat16 if config.precision == "bfloat16" else torch.float32


@contextmanager
def float32_products(precision: str) -> Iterator[None]:
    """How a GPU multiplies float32 inside: in full, or with precision bfloat16 as TF32, whose range is float32's.

    torch's cuDNN recurrence takes no bfloat16. TF32 has three bits more than that, and runs on the same units.
    """
    backends: tuple[Any, ...] = (torch.backends.cudnn.rnn, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = "tf32" if precision == "bfloat16" else "ieee"
    try:
        yield
    finally:
        for backend, was in zip(backends, before, strict=True):
            backend.fp32_precision = was
