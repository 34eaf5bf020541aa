"""Settings far out of range, and names that other systems refuse, are refused before work begins."""

import pytest
from pydantic import ValidationError

from rnnlm.config import RegistryConfig


@pytest.mark.parametrize("name", ["a.b", ".", "a/b", "a:b", "a%b", "a'b", "a b", "", "a" * 201, "-a", "ä"])
def test_a_model_name_that_mlflow_refuses_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        RegistryConfig(model_name=name)
    RegistryConfig(model_name="Rnnlm-a_1")
