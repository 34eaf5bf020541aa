"""An Elman language model read on token by token, for rows of text that come and go. Needs torch alone: it travels
with every registered model."""

from typing import Any

import torch
from torch import Tensor


class InferenceWeights:
    """An ElmanLanguageModel's weights as single steps read them fastest, for as long as they stay what they are.

    The head is copied column by column: a product of one row with it is then several times as fast. What the lowest
    layer makes of a token is looked up, for it is the same whenever that token comes. Laying out costs about as much as
    100 tokens; once done, it serves any number of texts.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.cells = [(cell.W.detach(), cell.recurrent().detach(), cell.b.detach()) for cell in model.stack.cells]
        W, _, b = self.cells[0]
        self.from_token = torch.addmm(b, model.embedding.weight.detach(), W)  # (V, H): x W + b of every token
        self.nonlinearity_ = getattr(torch, f"{model.stack.nonlinearity}_")  # in place
        self.readout = [matrix.detach().t().contiguous() for matrix in model.readout.parameters()]  # (H, E) or nothing
        self.head = model.head.weight.detach().t().contiguous()  # (H or E, V)
        self.head_bias = model.head_bias().detach()  # -inf for what is never predicted
        self.device = self.head.device

    def stepper(self, rows_in_products: int) -> "ElmanStepper":
        return ElmanStepper(self, rows_in_products)


class ElmanStepper:
    """An ElmanLanguageModel as a sampling.Stepper: a step is its matrix products and little else.

    Each writes over what the last but one has written.
    """

    def __init__(self, weights: InferenceWeights, rows_in_products: int = 1) -> None:
        self.weights = weights
        self.multiple = rows_in_products  # see Continuations
        U = weights.cells[0][1]
        self.hold(U.new_zeros(0, len(weights.cells), len(U)))

    def hold(self, state: Tensor) -> None:
        """The rows from now on. state: (rows, L, H)"""
        self.rows, empty = len(state), -len(state) % self.multiple
        state = torch.cat([state, state.new_zeros(empty, *state.shape[1:])])
        self.state = [hidden.contiguous() for hidden in state.unbind(dim=1)]  # L × (rows, H)
        self.next = [torch.empty_like(hidden) for hidden in self.state]
        self.logits = self.weights.head_bias.new_empty(len(state), len(self.weights.head_bias))
        self.empty_ids = [0] * empty

    def read(self, token_ids: list[int], state: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = self.weights
        hidden, state = weights.model.hidden(torch.tensor([token_ids], device=weights.device), state)
        return torch.addmm(weights.head_bias, hidden[:, -1], weights.head), state

    def join(self, state: Tensor) -> None:
        self.hold(torch.cat([self.current(), state]))

    def step(self, token_ids: list[int]) -> Tensor:
        weights, stack = self.weights, self.weights.model.stack
        below = torch.tensor(token_ids + self.empty_ids, device=weights.device)  # ids, then what each layer hands on
        for layer, (W, U, b) in enumerate(weights.cells):
            new = self.next[layer]
            if layer == 0:
                torch.index_select(weights.from_token, 0, below, out=new)
            else:
                torch.addmm(b, stack.layer_input(layer, below), W, out=new)
            below = stack.layer_output(layer, below, weights.nonlinearity_(new.addmm_(self.state[layer], U)))
        self.state, self.next = self.next, self.state
        for matrix in weights.readout:
            below = below @ matrix
        logits = torch.addmm(weights.head_bias, below, weights.head, out=self.logits)
        return logits[: self.rows] if self.empty_ids else logits

    def keep(self, rows: list[int]) -> None:
        self.hold(self.current()[rows])

    def current(self) -> Tensor:
        """(rows, L, H)"""
        return torch.stack(self.state, dim=1)[: self.rows]
