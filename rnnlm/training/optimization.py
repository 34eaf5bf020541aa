"""AdamW, its learning rate over time, and clipping."""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from rnnlm.config import TrainingConfig
from rnnlm.models.elman import ElmanLanguageModel


def make_optimizer(model: nn.Module, config: TrainingConfig) -> AdamW:
    """AdamW (Loshchilov, Hutter 2019); decay on matrices alone, biases are left free."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=config.learning_rate, fused=True)


def make_schedule(optimizer: AdamW, config: TrainingConfig, total_steps: int) -> LambdaLR:
    return LambdaLR(optimizer, rate_factor(config, total_steps))


def rate_factor(config: TrainingConfig, total_steps: int) -> Callable[[int], float]:
    """Step → share of the peak rate: linear warm-up from 1/warmup, then constant, or linear or cosine to 0."""
    warmup = math.ceil(config.warmup_share * total_steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        if config.schedule == "constant":
            return 1.0
        done = min(1.0, (step - warmup) / max(1, total_steps - warmup))
        return 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))

    return factor


def layer_norms(model: ElmanLanguageModel) -> dict[str, torch.Tensor]:
    """Gradient L2 norm of the embedding, each layer and the head, as tensors: reading them waits for the device."""
    parts: dict[str, nn.Module] = {"embedding": model.embedding, "head": model.head}
    parts |= {f"layer_{index}": cell for index, cell in enumerate(model.stack.cells)}
    return {
        f"gradient_norm_{name}": nn.utils.get_total_norm(
            [parameter.grad for parameter in part.parameters() if parameter.grad is not None]
        )
        for name, part in parts.items()
    }
