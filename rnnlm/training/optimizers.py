"""AdamW, for whole gradients and for gradients of some rows, and clipping."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.adamw import adamw

from rnnlm.config import OptimizerConfig
from rnnlm.models.elman import ElmanLanguageModel


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> "LazyAdamW":
    """AdamW with decay on matrices alone: biases, gains and diagonals are left free."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return LazyAdamW(groups, lr=config.learning_rate, fused=True)


class LazyAdamW(AdamW):
    """AdamW (Loshchilov, Hutter 2019); of a parameter with a sparse gradient only the rows it names change.

    A row that no gradient names keeps its moments, too, instead of letting them decay: so a step costs what the
    batch touches, whatever the vocabulary. The bias correction counts the steps of the whole parameter.
    """

    by_rows: tuple[Tensor, ...] = ()  # of whole gradients of these, too, only the rows that are not zero count

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        sparse = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.grad.is_sparse or any(parameter is one for one in self.by_rows):
                    self.step_rows(parameter, group)
                    sparse.append((parameter, parameter.grad))
                    parameter.grad = None  # hidden from the step of the others
        super().step()
        for parameter, gradient in sparse:
            parameter.grad = gradient

    def step_rows(self, parameter: Tensor, group: dict[str, Any]) -> None:
        """AdamW's own kernel, on copies of the rows."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)  # as AdamW has it
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        rows, gradient = rows_of(parameter.grad)  # type: ignore[arg-type]
        wholes = (parameter, state["exp_avg"], state["exp_avg_sq"])
        weight, mean, square = (whole[rows] for whole in wholes)
        adamw(
            [weight],
            [gradient],
            [mean],
            [square],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
        )
        for whole, changed in zip(wholes, (weight, mean, square), strict=True):
            whole[rows] = changed


def rows_of(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) and (n, …): the rows that a sparse gradient names, or those of a whole one that are not zero."""
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        return gradient.indices()[0], gradient.values()
    rows = gradient.any(dim=1).nonzero()[:, 0]
    return rows, gradient[rows]


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], clip_norm: float) -> Tensor:
    """Scale the gradients to at most this global L2 norm; returns the norm before.

    Coalesces sparse gradients: the norm is of what the optimizer applies.
    """
    values = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
        values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
    norm = nn.utils.get_total_norm(values)
    scale = (clip_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(values, scale)
    return norm


def norms_of_parts(model: ElmanLanguageModel) -> dict[str, Tensor]:
    """Gradient L2 norm of the embedding, each layer and the head, as tensors: reading them waits for the device."""
    parts: dict[str, list[nn.Module]] = {"embedding": [model.embedding], "head": [model.head]}
    if any(True for _ in model.readout.parameters()):
        parts["readout"] = [model.readout]
    parts |= {f"layer_{layer}": [cell] for layer, cell in enumerate(model.stack.cells)}
    for layer, norm in enumerate(model.stack.norms, start=1):
        parts[f"layer_{layer}"].append(norm)
    return {f"gradient_norm_{name}": nn.utils.get_total_norm(list(gradients(part))) for name, part in parts.items()}


def gradients(part: Iterable[nn.Module]) -> Iterable[Tensor]:
    """Of its parameters; of a sparse one its coalesced values."""
    for module in part:
        for parameter in module.parameters():
            if parameter.grad is not None:
                yield parameter.grad.coalesce().values() if parameter.grad.is_sparse else parameter.grad
