"""How far back a prediction's error is felt: the gradient of a loss against the distance to the state it reaches.

Backpropagation through time multiplies by one Jacobian for each step back. Their product shrinks or grows about
geometrically (Bengio, Simard and Frasconi 1994; Pascanu, Mikolov and Bengio 2013): gradients vanish or explode.
"""

import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.models.elman import ElmanLanguageModel


def gradient_norms(model: ElmanLanguageModel, token_ids: Tensor, target_ids: Tensor) -> Tensor:
    """token_ids: (b, t) int64, target_ids: (b,), what follows each row → (L, t) norms: layer, distance k back.

    Entry (l, k) is the mean over rows of ‖∂ loss / ∂ h‖₂: loss is -log p(target) in nats after the row's last token,
    the only loss there is; h is layer l's state k steps before that token's. The state is zero before each row.
    """
    embedded = model.embedding(token_ids)  # (b, t, E)
    hidden = [embedded.new_zeros(len(token_ids), model.stack.hidden_size) for _ in model.stack.cells]
    states: list[Tensor] = []  # the last time first: t × L of (b, H)
    for time in range(token_ids.shape[1]):
        below = embedded[:, time]
        for layer, cell in enumerate(model.stack.cells):
            hidden[layer] = cell(model.stack.layer_input(layer, below), hidden[layer])
            below = model.stack.layer_output(layer, below, hidden[layer])
        states = [*hidden, *states]
    # A row's loss depends on its own states alone, so the gradient of the sum holds every row's own gradient.
    loss = functional.cross_entropy(model.logits(model.readout(below)), target_ids, reduction="sum")
    gradients = torch.autograd.grad(loss, states)
    norms = torch.stack([gradient.norm(dim=-1).mean() for gradient in gradients])
    return norms.view(token_ids.shape[1], len(hidden)).t().contiguous()
