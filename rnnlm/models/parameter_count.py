"""How many parameters a model of a configuration has, without making its weights."""

import torch

from rnnlm.config import ModelConfig
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import architecture
from rnnlm.records import Record


class ParameterCount(Record):
    """Trained parameters. Tied matrices count once."""

    total: int
    embedding: int  # of them, in the embedding and in the head's matrix


def count_parameters(config: ModelConfig, vocabulary_size: int) -> ParameterCount:
    with torch.device("meta"):  # shapes only
        model = LanguageModel(architecture(config, vocabulary_size))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    tables = {id(table): table for table in (model.embedding.weight, model.head.weight) if table.requires_grad}
    return ParameterCount(
        total=sum(parameter.numel() for parameter in trained),
        embedding=sum(table.numel() for table in tables.values()),
    )
