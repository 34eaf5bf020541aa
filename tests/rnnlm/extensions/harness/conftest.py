"""Fixtures with models of the toy corpus in both modes, and with random models of every kind."""

from pathlib import Path

import pytest

from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer
from tests.configs import KINDS, random_model


@pytest.fixture
def stream_model(stream_folder: Path) -> LanguageModel:
    return load_model(stream_folder)


@pytest.fixture
def sentence_model(toy_run: RunRecord) -> LanguageModel:
    return load_model(toy_run.model_folder)


@pytest.fixture
def tokenizer(stream_folder: Path) -> TextTokenizer:
    """Return the tokenizer of the toy corpus, which all models of these tests share."""
    return load_tokenizer(stream_folder)


@pytest.fixture(params=KINDS)
def model_of_any_kind(request: pytest.FixtureRequest, tokenizer: TextTokenizer) -> LanguageModel:
    """Return a model of any kind with random weights and the words of the toy corpus."""
    return random_model(request.param, tokenizer.vocabulary_size)
