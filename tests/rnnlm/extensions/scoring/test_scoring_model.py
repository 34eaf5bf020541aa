"""The champion of the only registered model scores the texts if the user names no model."""

import pytest

from rnnlm.config import RegistryConfig
from rnnlm.errors import ModelError
from rnnlm.extensions.scoring.scoring_model import find_model
from tests.registrar import Registrar


@pytest.mark.long
def test_with_two_champions_the_message_names_them(registered: Registrar) -> None:
    assert find_model(registered.home, None).reference == "models:/rnnlm-toy@champion"
    registered.config = registered.config.model_copy(update={"registry": RegistryConfig(model_name="other")})
    registered()
    with pytest.raises(ModelError, match="2 models have a champion; name one.*\n.*other, rnnlm-toy"):
        find_model(registered.home, None)
    assert find_model(registered.home, "other").reference == "models:/other@champion"
    assert find_model(registered.home, "other/1").reference == "models:/other/1"
