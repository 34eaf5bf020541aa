"""The Elman language model. Imports only torch, because this file is part of every registered model.

Shapes: batch b, time t, layers L, hidden size H, embedding size E, vocabulary V.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# Scale of layer-normalized inputs, so that tanh starts in its linear part. It is separate from the learned gains, which
# would soon outgrow it: Adam changes all weights by steps of about the same size.
NORMALIZED_STD = 0.2
SAVED_PREFIX = "language_model."  # of the weights' names in model.safetensors: transformers' class holds this model


class ElmanCell(nn.Module):
    """Elman (1990) cell: h' = tanh(x W + h U + b).

    W: (input, H); U: (H, H), or (H,) if diagonal: then each unit reads only its own previous state (Li et al. 2018).
    nonlinearity: tanh or relu.
    """

    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "tanh", diagonal: bool = False) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(input_size, hidden_size))
        self.U = nn.Parameter(torch.empty(hidden_size) if diagonal else torch.empty(hidden_size, hidden_size))
        self.b = nn.Parameter(torch.zeros(hidden_size))
        self.nonlinearity = nonlinearity

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """x: (b, input), h: (b, H) → h': (b, H)"""
        recurrent = h @ self.U if self.U.ndim == 2 else h * self.U
        return getattr(torch, self.nonlinearity)(x @ self.W + recurrent + self.b)

    def recurrent(self) -> Tensor:
        """U as a matrix (H, H)."""
        return self.U if self.U.ndim == 2 else self.U.diag()


class ElmanStack(nn.Module):
    """A stack of cells: each layer reads the output of the layer below at the same time step.

    A layer's output is its state. With `residual`, layers above the first have pre-norm residual connections: they read
    their input layer-normalized (Ba, Kiros and Hinton 2016) and add their state to it (He et al. 2016).

    Two backends compute the same function. `loop` is the definition, step by step. `fused` computes all steps of a
    layer together: with torch's kernel, or when training on a CPU with a handwritten gradient.
    """

    cells: Sequence[ElmanCell]  # bottom to top
    norms: Sequence[nn.LayerNorm]  # of the inputs of layers above the first; empty without `residual`
    precision: torch.dtype | None = None  # of large products in the handwritten gradient; None: as the weights

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        nonlinearity: str = "tanh",
        backend: str = "fused",
        diagonal: bool = False,
        residual: bool = False,
    ) -> None:
        super().__init__()
        sizes = [input_size] + [hidden_size] * (layers - 1)
        cells = [ElmanCell(size, hidden_size, nonlinearity, diagonal) for size in sizes]
        self.cells = nn.ModuleList(cells)  # type: ignore[assignment]
        norms = [nn.LayerNorm(hidden_size, bias=False) for _ in cells[1:] if residual]
        self.norms = nn.ModuleList(norms)  # type: ignore[assignment]
        self.hidden_size = hidden_size
        self.nonlinearity = nonlinearity
        self.backend = backend
        self.residual = residual

    def layer_input(self, layer: int, below: Tensor) -> Tensor:
        """below: (…, H) output of the layer below, or x for the first layer → input of the layer's cell."""
        return NORMALIZED_STD * self.norms[layer - 1](below) if self.residual and layer else below

    def layer_output(self, layer: int, below: Tensor, h: Tensor) -> Tensor:
        """below: as in layer_input; h: (…, H) the layer's new state → output of the layer, (…, H)."""
        return below + h if self.residual and layer else h

    def forward(
        self,
        x: Tensor,
        state: Tensor | None = None,
        mask: Tensor | None = None,
        between: Sequence[Tensor] = (),
    ) -> tuple[Tensor, Tensor]:
        """x: (b, t, input), state: (b, L, H) or None for zeros → top layer's output (b, t, H), last state (b, L, H).

        mask: (b, t), 0 at padding, where the state stays the same.
        between: dropout masks (b, 1, H) for the inputs of layers above the first; empty: none.
        """
        if state is None:
            state = x.new_zeros(x.shape[0], len(self.cells), self.hidden_size)
        if mask is not None and bool(mask.all()):
            mask = None
        lasts = []
        for layer, (cell, initial) in enumerate(zip(self.cells, state.unbind(dim=1), strict=True)):
            cell_input = self.layer_input(layer, x)
            if layer and between:
                cell_input = cell_input * between[layer - 1]
            states, last = self.run_layer(cell, cell_input, initial, mask)
            x = self.layer_output(layer, x, states)
            lasts.append(last)
        return x, torch.stack(lasts, dim=1)

    def run_layer(self, cell: ElmanCell, x: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """x: (b, t, input), state: (b, H) → states of one layer (b, t, H), the last one (b, H)."""
        if self.backend == "loop" or mask is not None:  # only the loop supports masks
            return self.loop(cell, x, state, mask)
        if torch.is_grad_enabled() and x.device.type == "cpu":
            precision = self.precision or cell.W.dtype
            weights = (cell.W, cell.U, cell.b)
            states, last = BackpropagationThroughTime.apply(x, state, *weights, self.nonlinearity, precision)
            return states, last
        return self.kernel(cell, x, state)

    def loop(self, cell: ElmanCell, x: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The definition, step by step."""
        states = []
        for time in range(x.shape[1]):
            new = cell(x[:, time], state)
            state = new if mask is None else torch.where(mask[:, time, None].bool(), new, state)
            states.append(state)
        return torch.stack(states, dim=1), state

    def kernel(self, cell: ElmanCell, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """torch's kernel, which takes transposed weights and two biases; the second one is zero."""
        weights = [cell.W.t(), cell.recurrent().t(), cell.b, torch.zeros_like(cell.b)]
        kernel = getattr(torch, f"rnn_{self.nonlinearity}")
        # arguments: biases, layers, dropout, training, bidirectional, batch first; state is (1, b, H) there
        states, last = kernel(x, state[None].contiguous(), weights, True, 1, 0.0, False, False, True)
        return states, last[0]


class BackpropagationThroughTime(torch.autograd.Function):
    """One layer over all time steps with a handwritten gradient.

    x: (b, t, input), state: (b, H), W, U and b of the cell → states (b, t, H), last state (b, H). Only the recurrence
    is sequential; every other gradient is one matrix product over all b·t steps, in `precision`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        state: Tensor,
        W: Tensor,
        U: Tensor,
        b: Tensor,
        nonlinearity: str,
        precision: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        rows, steps, size = *x.shape[:2], len(U)
        inputs = x.transpose(0, 1).flatten(0, 1).to(precision)  # (t·b, input)
        projected = (inputs @ W.to(precision)).to(b.dtype).add_(b).view(steps, rows, size)
        states = projected.new_empty(steps + 1, rows, size)  # h before each step, and after the last
        states[0] = state
        activate = getattr(Tensor, f"{nonlinearity}_")
        add_product = torch.addmm if U.ndim == 2 else torch.addcmul
        for t in range(steps):
            activate(add_product(projected[t], states[t], U, out=states[t + 1]))
        ctx.save_for_backward(inputs, states, W, U)
        ctx.nonlinearity = nonlinearity
        return states[1:].transpose(0, 1), states[-1].clone()

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, states, W, U = ctx.saved_tensors
        states_grad, last_grad = output_grads[0].transpose(0, 1), output_grads[1]
        # ∂h'/∂a with a = x W + h U + b, as a function of h'.
        slopes = 1 - states[1:].square() if ctx.nonlinearity == "tanh" else states[1:].gt(0).to(states.dtype)
        add_product = torch.addmm if U.ndim == 2 else torch.addcmul
        deltas = torch.empty_like(slopes)  # ∂loss/∂a at each step, the last one first
        torch.add(states_grad[-1], last_grad, out=deltas[-1]).mul_(slopes[-1])
        for t in reversed(range(len(deltas) - 1)):
            add_product(states_grad[t], deltas[t + 1], U.t(), out=deltas[t]).mul_(slopes[t])
        flat_deltas = deltas.flatten(0, 1).to(inputs.dtype)  # (t·b, H)
        if U.ndim == 2:
            state_grad = deltas[0] @ U.t()
            U_grad = (states[:-1].flatten(0, 1).to(inputs.dtype).t() @ flat_deltas).to(U.dtype)
        else:
            state_grad = deltas[0] * U
            U_grad = (states[:-1] * deltas).sum(dim=(0, 1))
        x_grad = (flat_deltas @ W.t().to(inputs.dtype)).to(W.dtype)
        return (
            x_grad.view(*deltas.shape[:2], -1).transpose(0, 1),
            state_grad,
            (inputs.t() @ flat_deltas).to(W.dtype),
            U_grad,
            deltas.sum(dim=(0, 1)),
            None,
            None,
        )


class ElmanLanguageModel(nn.Module):
    """Embedding → stack → linear head. Returns logits; softmax belongs to the loss and to sampling.

    With tied embeddings the head shares the embedding's matrix, (V, E). If E is not H, a projection without bias, the
    readout, maps the top layer to E.

    The embedding of `<pad>` is always zero. `<pad>` and `<bos>` are never predicted: their logits are -inf, so their
    probability is 0 and their rows in the head get no gradient.
    """

    never_predicted: Tensor
    config: Mapping[str, Any]  # contents of config.json; set by from_config

    def __init__(
        self,
        vocabulary_size: int,
        hidden_size: int,
        embedding_size: int | None = None,
        layers: int = 1,
        nonlinearity: str = "tanh",
        tie_embeddings: bool = False,
        backend: str = "fused",
        diagonal: bool = False,
        residual: bool = False,
        pad_id: int = 0,
        bos_id: int = 2,
    ) -> None:
        super().__init__()
        embedding_size = embedding_size or hidden_size
        self.pad_id = pad_id
        self.embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=pad_id)
        self.stack = ElmanStack(embedding_size, hidden_size, layers, nonlinearity, backend, diagonal, residual)
        has_readout = tie_embeddings and embedding_size != hidden_size
        self.readout = nn.Linear(hidden_size, embedding_size, bias=False) if has_readout else nn.Identity()
        self.head = nn.Linear(embedding_size if has_readout else hidden_size, vocabulary_size)
        if tie_embeddings:
            self.head.weight = self.embedding.weight
        never = torch.zeros(vocabulary_size, dtype=torch.bool)
        never[[pad_id, bos_id]] = True
        self.register_buffer("never_predicted", never, persistent=False)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "ElmanLanguageModel":
        """A model with the settings of a saved model's config.json, whose names are those of Hugging Face."""
        model = cls(
            vocabulary_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            embedding_size=config["embedding_size"],
            layers=config["num_hidden_layers"],
            nonlinearity=config["nonlinearity"],
            tie_embeddings=config["tie_word_embeddings"],
            backend=config["backend"],
            diagonal=config["diagonal"],
            residual=config["residual"],
            pad_id=config["pad_token_id"],
            bos_id=config["bos_token_id"],
        )
        model.config = config
        model.embedding.weight.requires_grad_(not config["one_hot"])
        return model

    def saved_weights(self) -> dict[str, Tensor]:
        """The contents of model.safetensors. Tied weights are saved once."""
        tied = self.head.weight is self.embedding.weight
        weights = {name: tensor for name, tensor in self.state_dict().items() if not (tied and name == "head.weight")}
        return {SAVED_PREFIX + name: tensor.contiguous() for name, tensor in weights.items()}

    def load_saved_weights(self, saved: Mapping[str, Tensor]) -> None:
        """saved: the contents of a model.safetensors. RuntimeError names weights that are missing or do not fit."""
        weights = {name.removeprefix(SAVED_PREFIX): tensor for name, tensor in saved.items()}
        if self.head.weight is self.embedding.weight and "embedding.weight" in weights:
            weights["head.weight"] = weights["embedding.weight"]
        self.load_state_dict(weights)

    def forward(
        self, token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """token_ids: (b, t) int64 → logits (b, t, V), state after the last token (b, L, H)."""
        hidden, state = self.hidden(token_ids, state, mask)
        return self.logits(hidden), state

    def hidden(
        self, token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """token_ids: (b, t) int64 → input of the head (b, t, H or E), state after the last token (b, L, H)."""
        outputs, last = self.stack(self.embedding(token_ids), state, mask)
        return self.readout(outputs), last

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: (…, H or E) from hidden() → logits (…, V)."""
        return nn.functional.linear(hidden, self.head.weight, self.head_bias())

    def head_bias(self) -> Tensor:
        """(V,): the head's bias, -inf for `<pad>` and `<bos>`."""
        return self.head.bias.masked_fill(self.never_predicted, float("-inf"))
