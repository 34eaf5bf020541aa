"""The initial weights of a model. Each layer draws its own weights in Cell.initialize()."""

import torch
from torch import Tensor, nn

from rnnlm.config.model_config import ModelConfig
from rnnlm.errors import ConfigError
from rnnlm.models.cell import InitialWeights
from rnnlm.models.language_model import LanguageModel

# The standard deviation of the initial embedding. It is small, so that the inputs of tanh are in its linear part.
EMBEDDING_STD = 0.1


@torch.no_grad()
def initialize(
    model: LanguageModel,
    config: ModelConfig,
    generator: torch.Generator,
    log_unigram: Tensor | None = None,
) -> None:
    """Set all parameters in place. The same seed of the generator gives the same weights.

    `log_unigram`, (V,), is the initial bias of the head. With this bias, the first prediction is the unigram
    distribution. Raise ConfigError if a custom layer has weights that cannot be initialized here.
    """
    weights = InitialWeights(config.initialization, config.recurrent_initialization, config.layers, generator)
    embedding = model.embedding.weight
    if config.embedding_initialization == "xavier":
        nn.init.xavier_uniform_(embedding, generator=generator)
    else:
        embedding.copy_(torch.randn(embedding.shape, generator=generator) * EMBEDDING_STD)
    embedding[model.embedding.padding_idx] = 0.0
    for cell in model.stack.cells:
        try:
            cell.initialize(weights)
        except NotImplementedError as error:
            raise ConfigError(
                f"model.kind={config.kind}: {error};\ndefine a method initialize(weights) in the class"
            ) from error
    for norm in model.stack.norms:
        nn.init.ones_(norm.weight)
    for matrix in model.readout.parameters():
        weights.fill(matrix, matrix.shape[1])
    if model.head.weight is not embedding:
        weights.fill(model.head.weight, model.head.in_features)
    model.head.bias.copy_(torch.zeros_like(model.head.bias) if log_unigram is None else log_unigram)
