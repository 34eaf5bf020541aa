"""Seeds for everything that could draw at random."""

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int, deterministic: bool) -> None:
    """Python, NumPy, torch on the CPU and on every GPU; cuDNN deterministic, its autotuner off.

    deterministic: torch raises where only an algorithm exists whose results vary from call to call.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)  # all devices
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it
    torch.use_deterministic_algorithms(deterministic)


def step_generator(seed: int, step: int, purpose: str = "") -> torch.Generator:
    """What a step draws from, on the CPU: its number decides, not what was drawn before.

    So there is no state to save, and nothing that a log line or an evaluation could move.
    """
    digest = hashlib.sha256(f"{seed} {step} {purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))


def random_states() -> dict[str, Any]:
    """The global generators of Python, NumPy and torch (CPU, each GPU), as tensors and JSON's plain values."""
    kind, key, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": [kind, key.tolist(), *rest],  # type: ignore[union-attr]
        "torch": torch.get_rng_state(),  # uint8
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_states(states: dict[str, Any]) -> None:
    kind, internal, gauss = states["python"]
    random.setstate((kind, tuple(internal), gauss))
    name, key, *rest = states["numpy"]
    np.random.set_state((name, np.array(key, np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    for device, state in zip(range(torch.cuda.device_count()), states["cuda"], strict=False):
        torch.cuda.set_rng_state(state, device)


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Whatever the block draws from the global generators, they are as before when it ends."""
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)
