"""Seeds for everything that could draw at random."""

import hashlib
import os
import random

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
