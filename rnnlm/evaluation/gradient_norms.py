"""Norms of gradients through time, which show how much the loss of a token depends on earlier states of a model.

Backpropagation through time multiplies the gradient by one Jacobian for each step back. The product shrinks or grows
about geometrically (Bengio, Simard and Frasconi 1994; Pascanu, Mikolov and Bengio 2013), so that gradients vanish or
explode.
"""

import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.models.block import Block
from rnnlm.models.feed_forward import FeedForwardCell
from rnnlm.models.language_model import LanguageModel

# The kinds of layers for which the gradients of the inputs are measured. Their states consist of keys, values, scaled
# memories or pending sums, whose norms are not comparable.
READ_BY_INPUT = (Block, FeedForwardCell)


def gradient_norms(model: LanguageModel, token_ids: Tensor, target_ids: Tensor) -> Tensor:
    """Return the norms of the loss's gradients by layer and distance, (L, t).

    `token_ids` has shape (b, t) and type int64. `target_ids`, (b,), is the token after each row. Entry (l, k) is the
    mean over the rows of ‖∂ loss / ∂ h‖₂. Here loss = -ln p(target) after the last token of the row, and h is the state
    of layer l, k steps before the last token. For the kinds in READ_BY_INPUT, h is the input of the layer instead. The
    norm is 0 where the loss does not depend on h. Rows begin with a zero state.
    """
    embedded = model.embedding(token_ids)  # (b, t, E)
    hidden = list(model.stack.initial_state(len(token_ids)).unbind(dim=1))
    states: list[Tensor] = []  # The t × L states of shape (b, S), beginning with the last time step.
    for time in range(token_ids.shape[1]):
        below, probed = embedded[:, time], []
        for layer, cell in enumerate(model.stack.cells):
            cell_input = model.stack.layer_input(layer, below)
            output, hidden[layer] = cell.step(cell_input, hidden[layer])
            probed.append(cell_input if isinstance(cell, READ_BY_INPUT) else hidden[layer])
            below = model.stack.layer_output(layer, below, output)
        states = [*probed, *states]
    # The losses of the rows are summed, because the gradient of the sum is each row's own gradient.
    loss = functional.cross_entropy(
        model.logits(model.readout(model.stack.output_norm(below))), target_ids, reduction="sum"
    )
    gradients = torch.autograd.grad(loss, states, materialize_grads=True)
    norms = torch.stack([gradient.norm(dim=-1).mean() for gradient in gradients])
    return norms.view(token_ids.shape[1], len(hidden)).t().contiguous()


def input_gradient_norms(model: LanguageModel, token_ids: Tensor, target_ids: Tensor) -> Tensor:
    """Return the norms of the gradients of the embedded tokens instead of the states, by distance, (t,).

    These norms are defined for every kind of model.
    """
    embedded = model.embedding(token_ids).detach().requires_grad_()
    outputs, _ = model.stack(embedded)
    loss = functional.cross_entropy(model.logits(model.readout(outputs[:, -1])), target_ids, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, [embedded])
    return gradient.norm(dim=-1).mean(dim=0).flip(0)
