"""Fixtures with a small network of random weights and with short texts as rows of token ids."""

import numpy as np
import pytest
import torch

from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.segmentation import Mode, StreamCutter, TokenRows, join_rows, rows_from_lists
from tests.configs import new_model

VOCABULARY = 12


@pytest.fixture
def model() -> LanguageModel:
    network = new_model(VOCABULARY, 8, layers=2, tie_embeddings=True).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return network


def text_of(lines: list[list[int]], mode: Mode, block_length: int = 7) -> TokenRows:
    """Return the lines as stored rows: one per sentence, or blocks of a stream."""
    if mode == "sentence":
        return rows_from_lists([[2, *line, 3] for line in lines])
    cutter = StreamCutter(block_length=block_length)
    return join_rows([cutter.add(np.array([*line, 3], np.int32)) for line in lines] + [cutter.finish()])


def random_lines(seed: int, count: int = 12) -> list[list[int]]:
    draw = np.random.Generator(np.random.Philox(seed))
    return [draw.integers(4, VOCABULARY, size=length).tolist() for length in draw.integers(1, 12, size=count)]
