"""Seeds for everything that could draw at random."""

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
