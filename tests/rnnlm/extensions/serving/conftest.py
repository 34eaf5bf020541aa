"""Fixtures with the loaded toy model, and with a model that never generates `<eos>`."""

import shutil
from pathlib import Path

import pytest
import torch

from rnnlm.extensions.serving.model_loader import LoadedModel, load_served_model
from rnnlm.models.model_factory import load_model, save_model
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import EOS
from tests.conftest import Chain


@pytest.fixture(scope="session")
def toy_model(chain_template: tuple[Home, Chain]) -> Path:
    """Return the folder of the toy model. All tests of the session share this folder and must not change it."""
    return RunRecord.model_validate(chain_template[1]["run"]).model_folder


@pytest.fixture(scope="session")
def loaded(chain_template: tuple[Home, Chain], toy_model: Path) -> LoadedModel:
    return load_served_model(chain_template[0], str(toy_model))


@pytest.fixture(scope="session")
def endless_model(toy_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a toy model that cannot generate `<eos>`. Each of its texts has maximum_tokens tokens."""
    folder = shutil.copytree(toy_model, tmp_path_factory.mktemp("endless") / "model")
    model = load_model(folder)
    model.mixture = None
    with torch.no_grad():
        model.head.bias[EOS] = -1e4
    save_model(model, folder)
    return folder


@pytest.fixture(scope="session")
def endless(chain_template: tuple[Home, Chain], endless_model: Path) -> LoadedModel:
    return load_served_model(chain_template[0], str(endless_model))
