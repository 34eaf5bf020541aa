"""Which precision the products with rare classes have: the fast one, where the processor has it and it loses little."""

import torch

from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.training.devices import choose_device

NATIVE = ("avx512_bf16", "amx_bf16", "bf16")  # x86, x86 with matrix units, ARM: as torch names them


def precision_of_tail(config: ScoringConfig) -> torch.dtype:
    """Of evaluation.contexts.Normalizer. `auto`: bfloat16 on a CPU that multiplies it natively, else float32."""
    if config.precision != "auto":
        return torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    there = torch.cpu.get_capabilities()
    native = any(there.get(name, False) for name in NATIVE)
    return torch.bfloat16 if choose_device(config.device).type == "cpu" and native else torch.float32
