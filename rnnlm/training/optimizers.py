"""AdamW for dense and row-sparse gradients, gradient clipping, and gradient norms."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.adamw import adamw

from rnnlm.config.training_config import OptimizerConfig, TrainingConfig
from rnnlm.models.block import Linear
from rnnlm.models.cell import Cell
from rnnlm.models.devices import scale_tensors
from rnnlm.models.language_model import LanguageModel


def prepare_updates(model: LanguageModel, training: TrainingConfig, processes: int = 1) -> "LazyAdamW":
    """Return the optimizer, and set the precision of the model's matrix products and the form of its gradients.

    The model must already be on its device.
    """
    set_product_precision(model, getattr(torch, training.product_precision))
    # On a GPU, updating all rows at once is faster than updating some of them.
    by_rows = training.loss.is_sampled and model.head.weight.device.type == "cpu"
    # The embedding's gradient is sparse only in a single process; the head's gradient has the same form. Several
    # processes use dense gradients, because DDP supports sparse gradients only for embeddings, and gloo adds 3,000
    # sparse rows of 128 numbers in 34 ms but all 32,000 rows of a vocabulary in 18 ms. The optimizer then finds the
    # rows that are not zero.
    model.embedding.sparse = by_rows and processes == 1
    optimizer = make_optimizer(model, training.optimizer)
    optimizer.by_rows = (model.embedding.weight, model.head.weight) if by_rows else ()
    return optimizer


def set_product_precision(model: LanguageModel, precision: torch.dtype) -> None:
    """Set the numerical precision of the matrix products in the layers for training."""
    for module in model.stack.modules():
        if isinstance(module, Cell | Linear):
            module.precision = precision


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> "LazyAdamW":
    """Return AdamW with weight decay on matrices only, not on biases, gains and diagonals."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    facts = model.config if isinstance(model, LanguageModel) else {}
    rate = config.peak_rate(facts.get("kind", "elman"), facts.get("hidden_size", 1))
    return LazyAdamW(groups, lr=rate, fused=True)


class LazyAdamW(AdamW):
    """AdamW (Loshchilov and Hutter 2019), which updates only the rows that a sparse gradient contains.

    The moments of all other rows are not changed, whereas they decay in AdamW. Hence the cost of a step depends on the
    batch and not on the vocabulary. The bias correction uses the number of steps of the whole parameter.
    """

    # Parameters with dense gradients, of which only the rows with a nonzero gradient are updated.
    by_rows: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        if not any(self.is_lazy(one) for group in self.param_groups for one in group["params"] if one.grad is not None):
            super().step()  # The fused kernel updates all parameters at once.
            return
        for group in self.param_groups:
            whole = [one for one in group["params"] if one.grad is not None and not self.is_lazy(one)]
            # The fused kernel updates all other parameters at once.
            apply_adamw(group, [(one, one.grad, *self.state_of(one)) for one in whole])
            for parameter in group["params"]:
                if parameter.grad is not None and self.is_lazy(parameter):
                    self.update_rows(parameter, group)

    def update_rows(self, parameter: Tensor, group: dict[str, Any]) -> None:
        """Update only the rows of a parameter that have a nonzero gradient."""
        assert parameter.grad is not None
        rows, gradient = nonzero_rows(parameter.grad)
        mean, square, step = self.state_of(parameter)
        tensors = (parameter, mean, square)
        # Unlike indexing by brackets, index_select uses several processor cores.
        weights, means, squares = copies = tuple(tensor.index_select(0, rows) for tensor in tensors)
        apply_adamw(group, [(weights, gradient, means, squares, step)])
        for tensor, updated in zip(tensors, copies, strict=True):
            tensor.index_copy_(0, rows, updated)

    def is_lazy(self, parameter: Tensor) -> bool:
        """Return True if only the rows of the parameter with a nonzero gradient are updated."""
        is_sparse = parameter.grad is not None and parameter.grad.is_sparse
        return is_sparse or any(parameter is one for one in self.by_rows)

    def state_of(self, parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the two moments and the step count of a parameter. They are initialized as in AdamW."""
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state["exp_avg"], state["exp_avg_sq"], state["step"]


def apply_adamw(group: dict[str, Any], updates: list[tuple[Tensor, ...]]) -> None:
    """Update weights and their moments in place, and increase their step counts.

    Args:
        group: A parameter group of the optimizer, with its settings.
        updates: The weight, gradient, first moment, second moment and step count of each parameter.
    """
    if not updates:
        return
    weights, gradients, means, squares, steps = ([*column] for column in zip(*updates, strict=True))
    beta1, beta2 = group["betas"]
    settings = {name: group[name] for name in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
    adamw(weights, gradients, means, squares, [], steps, fused=True, beta1=beta1, beta2=beta2, **settings)


def nonzero_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices (n,) and the values (n, …) of the nonzero rows of a sparse or dense gradient.

    A sparse gradient also contains zero rows for the tokens that dropout removed. They are left out, because the dense
    gradients of several processes must give the same result.
    """
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
    else:
        rows, values = torch.arange(len(gradient), device=gradient.device), gradient
    kept = values.any(dim=1)
    return rows[kept], values[kept]


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], clip_norm: float | None) -> Tensor:
    """Scale the gradients in place so that their global L2 norm is at most `clip_norm`. Return the norm before scaling.

    The norm is a scalar on the device. If `clip_norm` is None, the gradients are not changed. Sparse gradients are
    coalesced first, because the optimizer applies the coalesced gradients.
    """
    values = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
        values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
    norm = nn.utils.get_total_norm(values)
    if clip_norm is not None:
        scale_tensors(values, (clip_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def gradient_norms_by_part(model: LanguageModel) -> dict[str, Tensor]:
    """Return the L2 norms of the gradients of the embedding, layers, readout and head, as scalars on the device."""
    parts: dict[str, list[nn.Module]] = {"embedding": [model.embedding], "head": [model.stack.output_norm, model.head]}
    if any(True for _ in model.readout.parameters()):
        parts["readout"] = [model.readout]
    parts |= {f"layer_{layer}": [cell] for layer, cell in enumerate(model.stack.cells)}
    for layer, norm in enumerate(model.stack.norms, start=1):
        parts[f"layer_{layer}"].append(norm)
    return {f"gradient_norm_{name}": nn.utils.get_total_norm(gradient_values(part)) for name, part in parts.items()}


def gradient_values(modules: Iterable[nn.Module]) -> list[Tensor]:
    """Return the gradients of all parameters. A sparse gradient is represented by its coalesced values."""
    found = (parameter.grad for module in modules for parameter in module.parameters())
    return [
        gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in found if gradient is not None
    ]


def norms_before_clipping(model: LanguageModel, norm: float, clip_norm: float | None) -> dict[str, float]:
    """Return the gradient norm of each part of the model before clipping.

    `norm` is the global norm of all gradients before clipping.
    """
    clipping = 1.0 if clip_norm is None else max(1.0, norm / clip_norm)
    return {name: float(value) * clipping for name, value in gradient_norms_by_part(model).items()}
