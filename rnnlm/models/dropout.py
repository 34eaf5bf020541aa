"""Dropout for training; the model itself does not contain it.

There are five kinds, each with its own share. Locked dropout uses one mask for all time steps of a sequence (Gal and
Ghahramani 2016): on embedded tokens, between layers and on the top layer. Word dropout drops rows of the embedding, so
that a word is missing in the whole batch; recurrent dropout drops weights of U, the same ones at all time steps (both
Merity, Keskar and Socher 2018). Remaining values are scaled up, so that expectations stay the same.
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
    """Shares set to zero, in [0, 1); 0: off."""

    words: float = 0.0  # of the vocabulary's embedding rows
    inputs: float = 0.0  # of the embedding's units
    layers: float = 0.0  # of the units that a layer reads from the one below
    outputs: float = 0.0  # of the top layer's output, as the head reads it; states are not dropped
    recurrent: float = 0.0  # of the weights in each U

    @property
    def is_off(self) -> bool:
        return not (self.words or self.inputs or self.layers or self.outputs or self.recurrent)


@dataclass(frozen=True)
class Masks:
    """Factors for one batch, each 0 or 1 / (1 - share); None or empty if nothing is dropped."""

    words: Tensor | None  # (V,)
    inputs: Tensor | None  # (b, 1, E)
    layers: tuple[Tensor, ...]  # L - 1 of (b, 1, H)
    outputs: Tensor | None  # (b, 1, H)
    recurrent: dict[str, Tensor]  # by the recurrent matrix's name in the stack


def draw_masks(model: LanguageModel, dropout: Dropout, rows: range, generator: torch.Generator) -> Masks | None:
    """Draw masks for some rows of a step's batch. They do not depend on which other rows are elsewhere.

    Drawn on the CPU, or by a GPU from the generator's seed. None, without drawing, if dropout is off or the model is in
    evaluation mode.
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
    # Row by row from a separate generator, so that neither a row's masks nor later draws depend on the number of rows.
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
    """Draw the masks on the model's GPU. Each mask has a seed of its own, made from `seed`."""
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
    """Compute model.hidden() with dropout: (b, t, H or E) and the state (b, L, S). token_ids: (b, t) int64."""
    if masks is None:
        return model.hidden(token_ids, state)
    x: Tensor = model.embedding(token_ids)
    if masks.words is not None:
        # On the embedded tokens, not on the matrix, so that a sparse gradient stays sparse.
        x = x * masks.words[token_ids].unsqueeze(-1)
    if masks.inputs is not None:
        x = x * masks.inputs
    # Replace U by the masked U for this call; the gradient reaches U through the mask.
    weights = {name: model.stack.get_parameter(name) * mask for name, mask in masks.recurrent.items()}
    x, last = functional_call(model.stack, weights, (x, state, None, masks.layers))
    return model.head_input(x if masks.outputs is None else x * masks.outputs), last


def recurrent_weights(stack: Stack) -> dict[str, Tensor]:
    """Return the recurrent matrices of all layers by their names in the stack. Kinds without them have none."""
    return {
        f"cells.{layer}.{name}": weight
        for layer, cell in enumerate(stack.cells)
        for name, weight in cell.recurrent_weights().items()
    }
