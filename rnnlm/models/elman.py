"""The Elman language model, there to be read. Needs torch alone: it travels with every registered model.

Shapes: batch b, time t, layers L, hidden size H, embedding size E, vocabulary V.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

Nonlinearity = Literal["tanh", "relu"]
Backend = Literal["fused", "loop"]

# What a normalised input is multiplied by, besides gains that are learnt and begin at 1: so tanh begins in its linear
# part. Gains that themselves begin at 0.2 soon outgrow it, for all weights learn by steps of about the same size.
NORMALISED_STD = 0.2


class ElmanCell(nn.Module):
    """Elman (1990) cell: h' = tanh(x W + h U + b).

    diagonal: of U only the diagonal is there, as a vector (H,): a unit sees its own past alone (Li et al. 2018).
    """

    def __init__(
        self, input_size: int, hidden_size: int, nonlinearity: Nonlinearity = "tanh", diagonal: bool = False
    ) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(input_size, hidden_size))
        self.U = nn.Parameter(torch.empty(hidden_size) if diagonal else torch.empty(hidden_size, hidden_size))
        self.b = nn.Parameter(torch.zeros(hidden_size))
        self.nonlinearity = nonlinearity

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """x: (b, input), h: (b, H) → h': (b, H)"""
        from_before = h @ self.U if self.U.ndim == 2 else h * self.U
        return getattr(torch, self.nonlinearity)(x @ self.W + from_before + self.b)

    def recurrent(self) -> Tensor:
        """U as a matrix (H, H), however it is kept."""
        return self.U if self.U.ndim == 2 else self.U.diag()


class ElmanStack(nn.Module):
    """Cells on top of each other: layer l at time t reads what layer l - 1 hands on at the same time.

    A layer hands on its state. With `residual` each layer but the lowest reads what is handed to it layer-normalised
    (Ba, Kiros and Hinton 2016), and hands on what was handed to it plus its state (He et al. 2016). So every layer
    speaks to the head, and what the layers below add up does not drive the next one into tanh's flat ends.

    Two backends compute the same function: `loop` is the definition, step by step; `fused` takes all steps of a layer
    together, in torch's kernel, or where a CPU learns, with its gradient by hand.
    """

    cells: Sequence[ElmanCell]  # bottom to top
    norms: Sequence[nn.LayerNorm]  # of what the cells but the lowest read; empty without `residual`
    precision: torch.dtype | None = None  # of the gradient by hand's large products; None: that of the weights

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        nonlinearity: Nonlinearity = "tanh",
        backend: Backend = "fused",
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

    def read_by(self, layer: int, below: Tensor) -> Tensor:
        """below: what the layer below hands on, (…, H), or to the lowest layer x → what the layer's cell reads."""
        return NORMALISED_STD * self.norms[layer - 1](below) if self.residual and layer else below

    def handed_on(self, layer: int, below: Tensor, h: Tensor) -> Tensor:
        """below: as in read_by, h: the layer's new state → what it hands on, (…, H)."""
        return below + h if self.residual and layer else h

    def forward(
        self,
        x: Tensor,
        state: Tensor | None = None,
        mask: Tensor | None = None,
        between: Sequence[Tensor] = (),
    ) -> tuple[Tensor, Tensor]:
        """x: (b, t, input), state: (b, L, H) or None for zeros → what the top layer hands on (b, t, H), last state.

        mask: (b, t), 0 where there is no token: the state is held there, as if the step had not been.
        between: of each layer but the lowest what its cell's input is multiplied by, (b, 1, H); empty: nothing.
        """
        if state is None:
            state = x.new_zeros(x.shape[0], len(self.cells), self.hidden_size)
        if mask is not None and bool(mask.all()):
            mask = None
        lasts = []
        for layer, (cell, before) in enumerate(zip(self.cells, state.unbind(dim=1), strict=True)):
            read = self.read_by(layer, x)
            if layer and between:
                read = read * between[layer - 1]
            states, last = self.run_layer(cell, read, before, mask)
            x = self.handed_on(layer, x, states)
            lasts.append(last)
        return x, torch.stack(lasts, dim=1)

    def run_layer(self, cell: ElmanCell, x: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """One layer. x: (b, t, input), state: (b, H) → its states (b, t, H), the last one (b, H)."""
        if self.backend == "loop" or mask is not None:  # the others cannot hold a state
            return self.loop(cell, x, state, mask)
        if torch.is_grad_enabled() and x.device.type == "cpu":
            precision = self.precision or cell.W.dtype
            states, last = ThroughTime.apply(x, state, cell.W, cell.U, cell.b, self.nonlinearity, precision)
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
        """torch's kernel. It multiplies by transposed weights and has two biases; the second is held at zero."""
        weights = [cell.W.t(), cell.recurrent().t(), cell.b, torch.zeros_like(cell.b)]
        kernel = getattr(torch, f"rnn_{self.nonlinearity}")
        # arguments: biases, layers, dropout, training, bidirectional, batch first; state is (1, b, H) there
        states, last = kernel(x, state[None].contiguous(), weights, True, 1, 0.0, False, False, True)
        return states, last[0]


class ThroughTime(torch.autograd.Function):
    """One layer over all time steps, and backpropagation through them by hand.

    x (b, t, input), state (b, H), W, U as a cell has it, b → outputs (b, t, H), last state (b, H). A step back in time
    cannot do without the one after it; all else is one product over all b·t steps instead of t small ones, taken in
    `precision`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        state: Tensor,
        W: Tensor,
        U: Tensor,
        b: Tensor,
        nonlinearity: Nonlinearity,
        precision: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        rows, steps, size = *x.shape[:2], len(U)
        inputs = x.transpose(0, 1).flatten(0, 1).to(precision)  # (t·b, input)
        from_below = (inputs @ W.to(precision)).to(b.dtype).add_(b).view(steps, rows, size)
        states = from_below.new_empty(steps + 1, rows, size)  # h before each step, and after the last
        states[0] = state
        activate = getattr(Tensor, f"{nonlinearity}_")
        add_product = torch.addmm if U.ndim == 2 else torch.addcmul
        for t in range(steps):
            activate(add_product(from_below[t], states[t], U, out=states[t + 1]))
        ctx.save_for_backward(inputs, states, W, U)
        ctx.nonlinearity = nonlinearity
        return states[1:].transpose(0, 1), states[-1].clone()

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, states, W, U = ctx.saved_tensors
        of_outputs, of_last = output_grads[0].transpose(0, 1), output_grads[1]
        # With a = x W + h U + b: ∂h'/∂a, from h' itself.
        slopes = 1 - states[1:].square() if ctx.nonlinearity == "tanh" else states[1:].gt(0).to(states.dtype)
        add_product = torch.addmm if U.ndim == 2 else torch.addcmul
        deltas = torch.empty_like(slopes)  # ∂loss/∂a at each step, the last one first
        torch.add(of_outputs[-1], of_last, out=deltas[-1]).mul_(slopes[-1])
        for t in reversed(range(len(deltas) - 1)):
            add_product(of_outputs[t], deltas[t + 1], U.t(), out=deltas[t]).mul_(slopes[t])
        together = deltas.flatten(0, 1).to(inputs.dtype)  # (t·b, H)
        if U.ndim == 2:
            of_state = deltas[0] @ U.t()
            of_U = (states[:-1].flatten(0, 1).to(inputs.dtype).t() @ together).to(U.dtype)
        else:
            of_state = deltas[0] * U
            of_U = (states[:-1] * deltas).sum(dim=(0, 1))
        x_grad = (together @ W.t().to(inputs.dtype)).to(W.dtype)
        return (
            x_grad.view(*deltas.shape[:2], -1).transpose(0, 1),
            of_state,
            (inputs.t() @ together).to(W.dtype),
            of_U,
            deltas.sum(dim=(0, 1)),
            None,
            None,
        )


class ElmanLanguageModel(nn.Module):
    """Embedding → stack → linear head. Softmax only inside the loss and at sampling.

    With tied embeddings the head's matrix is the embedding's, (V, E). Where E is not H, a matrix without bias, the
    readout, takes the top layer there: a wide state needs no wide table of words.

    The row of `<pad>` in the embedding is zero and stays so. `<pad>` and `<bos>` are never predicted:
    their logits are -inf, so that they have no probability and their rows in the head no gradient.
    """

    never_predicted: Tensor

    def __init__(
        self,
        vocabulary_size: int,
        hidden_size: int,
        embedding_size: int | None = None,
        layers: int = 1,
        nonlinearity: Nonlinearity = "tanh",
        tie_embeddings: bool = False,
        backend: Backend = "fused",
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
        reads_out = tie_embeddings and embedding_size != hidden_size
        self.readout = nn.Linear(hidden_size, embedding_size, bias=False) if reads_out else nn.Identity()
        self.head = nn.Linear(embedding_size if reads_out else hidden_size, vocabulary_size)
        if tie_embeddings:
            self.head.weight = self.embedding.weight
        never = torch.zeros(vocabulary_size, dtype=torch.bool)
        never[[pad_id, bos_id]] = True
        self.register_buffer("never_predicted", never, persistent=False)

    def forward(
        self, token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """token_ids: (b, t) int64 → logits (b, t, V), state after the last token (b, L, H)."""
        hidden, state = self.hidden(token_ids, state, mask)
        return self.logits(hidden), state

    def hidden(
        self, token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """token_ids: (b, t) int64 → what the head reads (b, t, H or E), state after the last token (b, L, H)."""
        outputs, last = self.stack(self.embedding(token_ids), state, mask)
        return self.readout(outputs), last

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: (…, H or E), as hidden() gives it → logits (…, V)."""
        return nn.functional.linear(hidden, self.head.weight, self.head_bias())

    def head_bias(self) -> Tensor:
        """(V,), -inf for what is never predicted."""
        return self.head.bias.masked_fill(self.never_predicted, float("-inf"))
