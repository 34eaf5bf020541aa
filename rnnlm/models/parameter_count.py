"""The number of parameters of a configuration, and the hidden_size for a given number of parameters."""

import torch

from rnnlm.config.model_config import ModelConfig
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import architecture
from rnnlm.storage.records import Record

LARGEST_HIDDEN_SIZE = 16_384  # The largest hidden_size that nearest_size() considers.


class ParameterCount(Record):
    """The number of trained parameters. Tied matrices are counted once."""

    total: int
    embedding: int  # The number of parameters in the embedding and in the head's matrix, which is included in `total`.


def count_parameters(config: ModelConfig, vocabulary_size: int) -> ParameterCount:
    with torch.device("meta"):  # Tensors on the device "meta" have shapes but no data.
        model = LanguageModel(architecture(config, vocabulary_size))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    tables = {id(table): table for table in (model.embedding.weight, model.head.weight) if table.requires_grad}
    return ParameterCount(
        total=sum(parameter.numel() for parameter in trained),
        embedding=sum(table.numel() for table in tables.values()),
    )


def nearest_size(config: ModelConfig, vocabulary_size: int, budget: int, step: int) -> ModelConfig:
    """Return the configuration with the hidden_size whose number of parameters is nearest to `budget`.

    The hidden_size is a multiple of `step`.
    """

    def sized(steps: int) -> ModelConfig:
        return config.model_copy(update={"hidden_size": steps * step})

    def count(steps: int) -> int:
        return count_parameters(sized(steps), vocabulary_size).total

    low, high = 1, LARGEST_HIDDEN_SIZE // step
    while low < high:  # Search for the largest size within the budget.
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(middle) <= budget else (low, middle - 1)
    return sized(min((low, low + 1), key=lambda steps: abs(count(steps) - budget)))
