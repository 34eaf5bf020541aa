"""The toy model, loaded as the service loads it."""

from pathlib import Path

import pytest

from rnnlm.home import Home
from rnnlm.records import RunRecord
from rnnlm.serving.loading import LoadedModel, load
from tests.conftest import Chain


@pytest.fixture(scope="session")
def toy_model(chain_template: tuple[Home, Chain]) -> Path:
    """The folder of the session's model: to be read only."""
    return RunRecord.model_validate(chain_template[1]["run"]).model_folder


@pytest.fixture(scope="session")
def loaded(chain_template: tuple[Home, Chain], toy_model: Path) -> LoadedModel:
    return load(chain_template[0], str(toy_model))
