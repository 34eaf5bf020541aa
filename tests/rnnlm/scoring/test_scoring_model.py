"""Which model scores, where none is named."""

import pytest

from rnnlm.config import RegistryConfig
from rnnlm.errors import ModelError
from rnnlm.scoring.scoring_model import find_model
from tests.registrar import Registrar


def test_with_two_champions_the_message_is_for_commands_and_for_deployments(register: Registrar) -> None:
    register()
    assert find_model(register.home, None).reference == "models:/rnnlm-toy@champion"
    register.config = register.config.model_copy(update={"registry": RegistryConfig(model_name="other")})
    register()
    with pytest.raises(ModelError, match="other, rnnlm-toy") as caught:
        find_model(register.home, None)
    told = str(caught.value)
    assert len(told.splitlines()) == 3
    assert "--model" in told
    assert "prefect.yaml" in told
