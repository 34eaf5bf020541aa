"""A small random network."""

import pytest
import torch

from rnnlm.models.language_model import LanguageModel
from tests.configs import new_model
from tests.rnnlm.evaluation.test_time_adaptation.texts import VOCABULARY


@pytest.fixture
def model() -> LanguageModel:
    network = new_model(VOCABULARY, 8, layers=2, tie_embeddings=True).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return network
