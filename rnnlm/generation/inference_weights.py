"""Single generation steps of a language model for many texts at once.

The module is copied into every bundle, so it imports only torch.
"""

from typing import Any

import torch
from torch import Tensor

from ..models.elman import ElmanCell
from ..models.language_model import LanguageModel
from ..models.mixture import CountMixture
from .sampling import Stepper


class InferenceWeights:
    """A copy of a model's head and of its Elman layers, arranged for fast single steps.

    The copy is valid as long as the weights do not change. The head is stored transposed, because this makes its
    product with a single row several times faster. The products of the lowest Elman layer with its inputs are stored in
    a table with one row for each token. Creating the copy takes as long as generating about 100 tokens, so it should be
    created once for many texts.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        if len(model.networks) > 1:
            self.members = [InferenceWeights(network) for network in model.networks]
            return
        # isinstance is not used, because a subclass of ElmanCell may compute another function.
        self.cells = [cell for cell in model.stack.cells if type(cell) is ElmanCell]
        if self.cells:
            self.matrices = [(cell.W.detach(), cell.recurrent().detach(), cell.b.detach()) for cell in self.cells]
            W, _, b = self.matrices[0]
            # The product x W + b for every token, (V, H).
            self.from_token = torch.addmm(b, model.embedding.weight.detach(), W)
            # The in-place variant of the nonlinearity.
            self.nonlinearity_ = getattr(torch, f"{self.cells[0].nonlinearity}_")
        # The readout matrix (H, E) in a list, which is empty if there is no readout.
        self.readout = [matrix.detach().t().contiguous() for matrix in model.readout.parameters()]
        self.head = model.head.weight.detach().t().contiguous()  # The transposed matrix of the head, (H or E, V).
        self.head_bias = model.head_bias().detach()  # The bias is -inf for tokens that are never predicted.
        self.device = self.head.device

    def stepper(self, rows_in_products: int) -> Stepper:
        network = self.network_stepper(rows_in_products)
        return network if self.model.mixture is None else MixedStepper(network, self.model.mixture)

    def network_stepper(self, rows_in_products: int) -> Stepper:
        """Return a stepper of the network, without the n-gram model."""
        if len(self.model.networks) > 1:
            return EnsembleStepper(self.model, [one.network_stepper(rows_in_products) for one in self.members])
        return (ElmanStepper if self.cells else StackStepper)(self, rows_in_products)


class StackStepper:
    """A sampling.Stepper for networks with layers of any kind."""

    def __init__(self, weights: InferenceWeights, rows_in_products: int = 1) -> None:
        self.weights = weights
        # The number of rows of each matrix product is padded to a multiple of this number; see Continuations.
        self.multiple = rows_in_products
        self.hold(weights.model.stack.initial_state(0))

    def hold(self, state: Tensor) -> None:
        """Replace the state of all rows, (rows, L, S)."""
        self.rows, padding = len(state), -len(state) % self.multiple
        self.padding_ids = [0] * padding
        self.keep_state(torch.cat([state, state.new_zeros(padding, *state.shape[1:])]))

    def keep_state(self, state: Tensor) -> None:
        """Use `state`, (rows and padding, L, S), as the state before the next step."""
        self.state = state

    def current(self) -> Tensor:
        """Return the state of all rows, (rows, L, S)."""
        return self.state[: self.rows]

    def read(self, token_ids: list[int], state: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = self.weights
        hidden, state = weights.model.hidden(torch.tensor([token_ids], device=weights.device), state)
        return torch.addmm(weights.head_bias, hidden[:, -1], weights.head), state

    def join(self, state: Tensor) -> None:
        self.hold(torch.cat([self.current(), state]))

    def step(self, token_ids: list[int]) -> Tensor:
        weights = self.weights
        ids = torch.tensor(token_ids + self.padding_ids, device=weights.device)
        # The stack calls `step` of the cells, because torch's LSTM kernel in `sequence` would prepare its weights at
        # each call.
        top, _, self.state = weights.model.stack.step(weights.model.embedding(ids), self.state)
        hidden = weights.model.readout(top)
        return torch.addmm(weights.head_bias, hidden, weights.head)[: self.rows]

    def keep(self, rows: list[int]) -> None:
        self.hold(self.current()[rows])


class ElmanStepper(StackStepper):
    """A faster stepper for Elman layers. It has two sets of buffers, which are overwritten in turn."""

    def keep_state(self, state: Tensor) -> None:
        # The state of each of the L layers, (rows, H).
        self.states = [hidden.contiguous() for hidden in state.unbind(dim=1)]
        self.next = [torch.empty_like(hidden) for hidden in self.states]
        self.logits = self.weights.head_bias.new_empty(len(state), len(self.weights.head_bias))

    def current(self) -> Tensor:
        return torch.stack(self.states, dim=1)[: self.rows]

    def step(self, token_ids: list[int]) -> Tensor:
        weights, stack = self.weights, self.weights.model.stack
        # The token ids, and then the output of each layer from bottom to top.
        below = torch.tensor(token_ids + self.padding_ids, device=weights.device)
        for layer, (W, U, b) in enumerate(weights.matrices):
            new = self.next[layer]
            if layer == 0:
                torch.index_select(weights.from_token, 0, below, out=new)
            else:
                torch.addmm(b, stack.layer_input(layer, below), W, out=new)
            below = stack.layer_output(layer, below, weights.nonlinearity_(new.addmm_(self.states[layer], U)))
        self.states, self.next = self.next, self.states
        for matrix in weights.readout:
            below = below @ matrix
        logits = torch.addmm(weights.head_bias, below, weights.head, out=self.logits)
        return logits[: self.rows] if self.padding_ids else logits


class EnsembleStepper:
    """A sampling.Stepper for an ensemble. It calls the stepper of each network."""

    def __init__(self, ensemble: LanguageModel, members: list[Stepper]) -> None:
        self.ensemble, self.members = ensemble, members

    def read(self, token_ids: list[int], state: Any) -> tuple[Tensor, Any]:
        states = [None] * len(self.members) if state is None else state
        both = [member.read(token_ids, one) for member, one in zip(self.members, states, strict=True)]
        return self.ensemble.logits_of_networks([logits for logits, _ in both]), [after for _, after in both]

    def join(self, state: Any) -> None:
        for member, one in zip(self.members, state, strict=True):
            member.join(one)

    def step(self, token_ids: list[int]) -> Tensor:
        return self.ensemble.logits_of_networks([member.step(token_ids) for member in self.members])

    def keep(self, rows: list[int]) -> None:
        for member in self.members:
            member.keep(rows)


class MixedStepper:
    """A sampling.Stepper for a network that is mixed with an n-gram model.

    The n-gram model reads each row's last tokens.
    """

    def __init__(self, network: Stepper, mixture: CountMixture) -> None:
        self.network, self.mixture = network, mixture
        self.contexts: list[list[int]] = []  # The last tokens of each row for the n-gram model, in reverse order.

    def read(self, token_ids: list[int], state: Any) -> tuple[Tensor, Any]:
        of_network, context = (None, []) if state is None else state
        logits, of_network = self.network.read(token_ids, of_network)
        context = self.extended(context, token_ids)
        return self.mixture.log_probabilities(logits, [context]), (of_network, context)

    def extended(self, context: list[int], token_ids: list[int]) -> list[int]:
        return [*reversed(token_ids), *context][: self.mixture.context_length]

    def join(self, state: Any) -> None:
        of_network, context = state
        self.network.join(of_network)
        self.contexts.append(context)

    def step(self, token_ids: list[int]) -> Tensor:
        pairs = zip(self.contexts, token_ids, strict=True)
        self.contexts = [self.extended(context, [token_id]) for context, token_id in pairs]
        return self.mixture.log_probabilities(self.network.step(token_ids), self.contexts)

    def keep(self, rows: list[int]) -> None:
        self.network.keep(rows)
        self.contexts = [self.contexts[row] for row in rows]
