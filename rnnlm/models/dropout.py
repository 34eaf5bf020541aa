"""Dropout for training. It is not part of the saved model.

There are five kinds of dropout, each with its own rate. Locked dropout uses one mask for all time steps of a sequence
(Gal and Ghahramani 2016). It applies to the embedded tokens, to the values between layers, and to the output of the top
layer. Word dropout removes rows of the embedding, so that a token is missing from the whole batch. Recurrent dropout
removes weights of U, the same ones at all time steps. Word and recurrent dropout follow Merity, Keskar and Socher
(2018). The remaining values are multiplied by 1 / (1 - rate), so that their expectation does not change.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from rnnlm.models.device_masks import drawn_mask, draws_masks
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.stack import Stack


@dataclass(frozen=True)
class Dropout:
    """The dropout rates, in [0, 1). A rate of 0 disables that kind of dropout."""

    words: float = 0.0  # The fraction of removed rows of the embedding.
    inputs: float = 0.0  # The fraction of removed units of the embedded tokens.
    layers: float = 0.0  # The fraction of removed units among those that a layer reads from the layer below.
    # The fraction of removed units among those that the head reads from the top layer. The states keep these units.
    outputs: float = 0.0
    recurrent: float = 0.0  # The fraction of removed weights in each recurrent matrix U.

    @property
    def is_off(self) -> bool:
        return not (self.words or self.inputs or self.layers or self.outputs or self.recurrent)


@dataclass(frozen=True)
class Masks:
    """The factors for one batch, each 0 or 1 / (1 - rate). A mask is None or empty if its rate is 0."""

    words: Tensor | None  # (V,)
    inputs: Tensor | None  # (b, 1, E)
    layers: tuple[Tensor, ...]  # A mask of shape (b, 1, H) for each of the upper L - 1 layers.
    outputs: Tensor | None  # (b, 1, H)
    recurrent: dict[str, Tensor]  # The keys are the names of the recurrent matrices in the stack.


def draw_masks(model: LanguageModel, dropout: Dropout, rows: range, generator: torch.Generator) -> Masks | None:
    """Draw the masks of some rows of a step's batch. They do not depend on how the batch is split into rows.

    The masks are drawn on the CPU, or on a GPU from the generator's seed. If dropout is off or the model is in
    evaluation mode, nothing is drawn and the result is None.
    """
    if dropout.is_off or not model.training:
        return None
    weight = model.embedding.weight
    if draws_masks(weight.device):
        return draw_masks_on_device(model, dropout, rows, generator.initial_seed())
    vocabulary, embedding_size = weight.shape
    size, layers = model.stack.hidden_size, len(model.stack.cells)

    def mask(draws: Tensor, share: float) -> Tensor:
        return draws.ge(share).to(weight.dtype).div_(1.0 - share)

    def drawn(share: float, *shape: int) -> Tensor:
        return mask(torch.rand(shape, generator=generator), share)

    words = drawn(dropout.words, vocabulary) if dropout.words else None
    matrices = recurrent_weights(model.stack) if dropout.recurrent else {}
    recurrent = {name: drawn(dropout.recurrent, *matrix.shape) for name, matrix in matrices.items()}
    # The rows' masks are drawn one after the other from a separate generator, so that neither they nor later random
    # values depend on the number of rows.
    row_generator = torch.Generator().manual_seed(int(torch.randint(2**63 - 1, (), generator=generator)))
    draws = torch.rand(rows.stop, 1, embedding_size + layers * size, generator=row_generator)[rows.start :: rows.step]
    inputs, *between, outputs = draws.split([embedding_size] + [size] * layers, dim=-1)
    return Masks(
        words=words,
        inputs=mask(inputs, dropout.inputs) if dropout.inputs else None,
        layers=tuple(mask(units, dropout.layers) for units in between if dropout.layers),
        outputs=mask(outputs, dropout.outputs) if dropout.outputs else None,
        recurrent=recurrent,
    )


def draw_masks_on_device(model: LanguageModel, dropout: Dropout, rows: range, seed: int) -> Masks:
    """Draw the masks on the model's GPU. Each mask has its own seed, which is derived from `seed`."""
    weight, layers = model.embedding.weight, len(model.stack.cells)
    vocabulary, embedding_size = weight.shape

    def mask(place: int, share: float, columns: int, of_rows: range = rows) -> Tensor:
        return drawn_mask(of_rows, columns, share, seed + place, weight.device).to(weight.dtype)

    def matrix_mask(place: int, matrix: Tensor) -> Tensor:
        return mask(place, dropout.recurrent, matrix.numel(), range(1)).view(matrix.shape)

    between = mask(2, dropout.layers, (layers - 1) * model.stack.hidden_size) if dropout.layers and layers > 1 else None
    matrices = recurrent_weights(model.stack) if dropout.recurrent else {}
    return Masks(
        words=mask(0, dropout.words, vocabulary, range(1))[0] if dropout.words else None,
        inputs=mask(1, dropout.inputs, embedding_size)[:, None] if dropout.inputs else None,
        layers=() if between is None else between[:, None].split(model.stack.hidden_size, dim=-1),
        outputs=mask(3, dropout.outputs, model.stack.hidden_size)[:, None] if dropout.outputs else None,
        recurrent={name: matrix_mask(4 + place, matrix) for place, (name, matrix) in enumerate(matrices.items())},
    )


def masked_hidden(
    model: LanguageModel, masks: Masks | None, token_ids: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the result of model.hidden() with dropout: the head's input (b, t, H or E) and the state (b, L, S).

    `token_ids` has shape (b, t) and type int64.
    """
    if masks is None:
        return model.hidden(token_ids, state)
    x: Tensor = model.embedding(token_ids)
    if masks.words is not None:
        # The mask is applied to the embedded tokens and not to the embedding matrix, so that a sparse gradient stays
        # sparse.
        x = x * masks.words[token_ids].unsqueeze(-1)
    if masks.inputs is not None:
        x = x * masks.inputs
    # The cells use the masked U during this call. U gets its gradient through the mask.
    weights = {name: model.stack.get_parameter(name) * mask for name, mask in masks.recurrent.items()}
    x, last = functional_call(model.stack, weights, (x, state, None, masks.layers))
    return model.head_input(x if masks.outputs is None else x * masks.outputs), last


def recurrent_weights(stack: Stack) -> dict[str, Tensor]:
    """Return the recurrent matrices of all layers by their names in the stack. Some kinds of layers have none."""
    return {
        f"cells.{layer}.{name}": weight
        for layer, cell in enumerate(stack.cells)
        for name, weight in cell.recurrent_weights().items()
    }
