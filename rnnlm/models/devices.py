"""The choice of the device, the precision of its matrix products, and its memory settings."""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from rnnlm.errors import DeviceError

# torch's names for the bfloat16 instructions of x86, of x86 with matrix units, and of ARM.
NATIVE_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")
T = TypeVar("T")
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # Two options of mallopt(), as numbered in malloc.h.


def choose_device(name: str) -> torch.device:
    """Return the named device. `auto` is cuda if available, else mps, else cpu.

    Raise DeviceError if a named device does not exist.
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    available = [device for device, there in present.items() if there]
    if name == "auto":
        return torch.device(available[0])
    if name not in available:
        raise DeviceError(
            f"training.device={name}: this machine has no such device; available: {', '.join(available)} (or auto)"
        )
    return torch.device(name)


def evaluation_device(of_training: str | None) -> torch.device:
    """Return the CPU if training was configured to use the CPU, otherwise the best device of this machine."""
    return choose_device("cpu" if of_training == "cpu" else "auto")


def choose_rank_device(name: str) -> torch.device:
    """Return the device of this rank. If the device is a GPU, each rank has a separate GPU.

    Raise DeviceError if there are fewer GPUs than ranks.
    """
    device = choose_device(name)
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "mps":
        raise DeviceError("training.device=mps: distributed training needs cuda or cpu; set training.device=cpu")
    if device.type != "cuda":
        return device
    if local_rank >= torch.cuda.device_count():
        raise DeviceError(
            f"training.distributed.processes: there is no GPU for local rank {local_rank}, because this machine\n"
            f"has only {torch.cuda.device_count()}; set as many processes as GPUs, or training.device=cpu"
        )
    return torch.device("cuda", local_rank)


def has_native_bfloat16() -> bool:
    """Return True if the CPU multiplies bfloat16 numbers in hardware. Other CPUs are many times slower at it."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in NATIVE_BFLOAT16)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return True if the device multiplies bfloat16 numbers in hardware: some CPUs, and NVIDIA's GPUs since 2020."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and has_native_bfloat16()


def machine_facts(device: torch.device) -> list[Any]:
    """Return all facts about the machine on which the speed of training depends.

    They are the CPU, the GPU, the number of threads and the version of torch.
    """
    processor = [platform.machine(), torch.backends.cpu.get_cpu_capability(), os.cpu_count(), torch.get_num_threads()]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return [*processor, has_native_bfloat16(), name, torch.__version__]


def usable_precision(precision: str, device: torch.device) -> str:
    """Return `precision`, or float32 if the device lacks native bfloat16, so that float32 is faster there."""
    return precision if device.type == "mps" or multiplies_bfloat16(device) else "float32"


def keep_freed_memory() -> None:
    """Let glibc's malloc keep the memory that a step frees, instead of returning it to the operating system.

    Each step allocates the same large arrays. The operating system would zero the pages of these arrays every time,
    which takes a third of a step's time if the vocabulary is large. Without glibc this function has no effect.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)  # With this setting, malloc also allocates large arrays on the heap.
        # With this setting, malloc keeps up to 2 GiB of freed memory, which is the largest allowed value.
        mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def to_device(value: T, device: torch.device) -> T:
    """Copy a tensor, or all tensors in dataclasses, tuples and dictionaries, to a device.

    Copies from pinned memory to a GPU are asynchronous.
    """
    found: Any = value
    if isinstance(found, Tensor):
        pinned = found.pin_memory() if device.type == "cuda" and found.device.type == "cpu" else found
        return pinned.to(device, non_blocking=True)  # type: ignore[return-value]
    if isinstance(found, tuple):
        return tuple(to_device(item, device) for item in found)  # type: ignore[return-value]
    if isinstance(found, dict):
        return {name: to_device(item, device) for name, item in found.items()}  # type: ignore[return-value]
    if is_dataclass(found) and not isinstance(found, type):
        moved = {field.name: to_device(getattr(found, field.name), device) for field in fields(found)}
        return replace(found, **moved)  # type: ignore[return-value]
    return value


# The next two functions call private functions of torch (2.13), because its public functions start one kernel for each
# tensor.


def copy_tensors(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy each source to the target with the same index. A GPU copies all of them in one kernel."""
    torch._foreach_copy_(targets, sources)


def scale_tensors(tensors: list[Tensor], factor: Tensor) -> None:
    """Multiply all tensors in place by a scalar tensor. A GPU multiplies all of them in one kernel."""
    torch._foreach_mul_(tensors, factor)


@contextmanager
def float32_products(precision: str) -> Iterator[None]:
    """Set how a GPU multiplies float32 matrices inside the context: as TF32 if `precision` is bfloat16.

    Otherwise, products are exact. torch's recurrence with cuDNN does not support bfloat16. TF32 runs on the same tensor
    cores, with three more bits of precision.
    """
    backends: tuple[Any, ...] = (torch.backends.cudnn.rnn, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = "tf32" if precision == "bfloat16" else "ieee"
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = value
