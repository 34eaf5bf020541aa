"""The seeds and the states of all random generators."""

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int, deterministic: bool) -> None:
    """Seed Python, NumPy and torch on all devices, make cuDNN deterministic and disable its autotuner.

    If `deterministic` is true, torch raises an error where only a nondeterministic algorithm exists.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if deterministic:
        # cuBLAS is deterministic only with this environment variable.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic)


def step_generator(seed: int, step: int) -> torch.Generator:
    """Return a CPU generator that depends only on the seed and the step, not on earlier draws.

    Hence a checkpoint need not contain its state, and evaluations or log lines cannot change it.
    """
    # The trailing space must remain, because without it all results would change.
    digest = hashlib.sha256(f"{seed} {step} ".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))


def random_states() -> dict[str, Any]:
    """Return the states of the generators of Python, NumPy and torch (CPU and GPUs), as tensors and JSON values."""
    kind, key, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": [kind, key.tolist(), *rest],  # type: ignore[union-attr]
        "torch": torch.get_rng_state(),
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
def preserve_random_states() -> Iterator[None]:
    """Restore the states of the global random generators at the end of the context."""
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)
