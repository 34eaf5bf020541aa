"""Elman language model weights laid out for stepping token by token. Imports only torch: copied into every bundle."""

from typing import Any

import torch
from torch import Tensor


class InferenceWeights:
    """A copy of an ElmanLanguageModel's weights, laid out for fast single steps; valid while they do not change.

    The head is stored transposed: its product with one row is then several times as fast. The lowest layer's input
    product is a table indexed by token. Building this costs as much as about 100 tokens, once for any number of texts.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.cells = [(cell.W.detach(), cell.recurrent().detach(), cell.b.detach()) for cell in model.stack.cells]
        W, _, b = self.cells[0]
        self.from_token = torch.addmm(b, model.embedding.weight.detach(), W)  # (V, H): x W + b for every token
        self.nonlinearity_ = getattr(torch, f"{model.stack.nonlinearity}_")  # in place
        self.readout = [matrix.detach().t().contiguous() for matrix in model.readout.parameters()]  # (H, E), or empty
        self.head = model.head.weight.detach().t().contiguous()  # (H or E, V)
        self.head_bias = model.head_bias().detach()  # -inf for tokens that are never predicted
        self.device = self.head.device

    def stepper(self, rows_in_products: int) -> "ElmanStepper":
        return ElmanStepper(self, rows_in_products)


class ElmanStepper:
    """sampling.Stepper for an ElmanLanguageModel. Each step overwrites the buffers of the step before the last."""

    def __init__(self, weights: InferenceWeights, rows_in_products: int = 1) -> None:
        self.weights = weights
        self.multiple = rows_in_products  # see Continuations
        U = weights.cells[0][1]
        self.hold(U.new_zeros(0, len(weights.cells), len(U)))

    def hold(self, state: Tensor) -> None:
        """Replace all rows. state: (rows, L, H)"""
        self.rows, padding = len(state), -len(state) % self.multiple
        state = torch.cat([state, state.new_zeros(padding, *state.shape[1:])])
        self.state = [hidden.contiguous() for hidden in state.unbind(dim=1)]  # L × (rows, H)
        self.next = [torch.empty_like(hidden) for hidden in self.state]
        self.logits = self.weights.head_bias.new_empty(len(state), len(self.weights.head_bias))
        self.padding_ids = [0] * padding

    def read(self, token_ids: list[int], state: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = self.weights
        hidden, state = weights.model.hidden(torch.tensor([token_ids], device=weights.device), state)
        return torch.addmm(weights.head_bias, hidden[:, -1], weights.head), state

    def join(self, state: Tensor) -> None:
        self.hold(torch.cat([self.current(), state]))

    def step(self, token_ids: list[int]) -> Tensor:
        weights, stack = self.weights, self.weights.model.stack
        below = torch.tensor(token_ids + self.padding_ids, device=weights.device)  # token ids, then each layer's output
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
        return logits[: self.rows] if self.padding_ids else logits

    def keep(self, rows: list[int]) -> None:
        self.hold(self.current()[rows])

    def current(self) -> Tensor:
        """(rows, L, H)"""
        return torch.stack(self.state, dim=1)[: self.rows]
