"""Initial weights: Xavier-uniform matrices, and four kinds of initial recurrent matrices."""

import torch
from torch import Tensor, nn

from rnnlm.config import RecurrentInitialization
from rnnlm.models.elman import ElmanLanguageModel

EMBEDDING_STD = 0.1  # small compared with the recurrent input, so that tanh starts in its linear part


@torch.no_grad()
def initialize(
    model: ElmanLanguageModel,
    recurrent: RecurrentInitialization,
    generator: torch.Generator,
    log_unigram: Tensor | None = None,
) -> None:
    """Fill all parameters in place; the same generator seed gives the same weights.

    recurrent: initial U. identity: Le, Jaitly and Hinton 2015; orthogonal: Saxe et al. 2014; spread: a diagonal from 0
    to 1, from units that forget at once to units that never do. A diagonal U needs identity or spread.
    log_unigram: (V,) initial bias of the head, so that the first prediction is the unigram distribution.
    """
    embedding = model.embedding.weight
    embedding.copy_(torch.randn(embedding.shape, generator=generator) * EMBEDDING_STD)
    embedding[model.embedding.padding_idx] = 0.0
    for cell in model.stack.cells:
        nn.init.xavier_uniform_(cell.W, generator=generator)
        if recurrent == "xavier":
            nn.init.xavier_uniform_(cell.U, generator=generator)
        elif recurrent == "orthogonal":
            nn.init.orthogonal_(cell.U, generator=generator)
        else:
            size = len(cell.U)
            diagonal = torch.ones(size) if recurrent == "identity" else torch.linspace(0.0, 1.0, size)
            cell.U.copy_(diagonal.diag() if cell.U.ndim == 2 else diagonal)
        nn.init.zeros_(cell.b)
    for norm in model.stack.norms:
        nn.init.ones_(norm.weight)
    for matrix in model.readout.parameters():
        nn.init.xavier_uniform_(matrix, generator=generator)
    if model.head.weight is not embedding:
        nn.init.xavier_uniform_(model.head.weight, generator=generator)
    model.head.bias.copy_(torch.zeros_like(model.head.bias) if log_unigram is None else log_unigram)
