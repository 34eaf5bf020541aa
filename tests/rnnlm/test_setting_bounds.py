"""Settings far out of range, and names that other systems refuse, are refused before work begins."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

import rnnlm
from rnnlm.config import RegistryConfig
from rnnlm.config.section import Section
from rnnlm.errors import ConfigError
from rnnlm.validation import validated

for found in pkgutil.walk_packages(rnnlm.__path__, "rnnlm."):
    if found.name.endswith("_config"):
        importlib.import_module(found.name)


def sections(parent: type[Section] = Section) -> Iterator[type[Section]]:
    for section in parent.__subclasses__():
        yield section
        yield from sections(section)


def is_number(section: type[Section], name: str) -> bool:
    found: dict[str, Any] = section.model_json_schema()["properties"][name]
    return any(kind.get("type") in ("integer", "number") for kind in (found, *found.get("anyOf", [])))


REQUIRED = {"ScoringConfig": {"input": "a.txt", "output": "a.parquet"}}
NUMBERS = sorted(
    (section.__name__, name, section)
    for section in sections()
    for name in section.model_fields
    if is_number(section, name)
)


@pytest.mark.parametrize(("owner", "name", "section"), NUMBERS)
def test_every_number_has_a_largest_value_that_the_message_names(owner: str, name: str, section: type[Section]) -> None:
    for value in (10**22, 10**400) if "integer" in str(section.model_json_schema()["properties"][name]) else (1e22,):
        with pytest.raises(ConfigError) as refused:
            validated(section, REQUIRED.get(owner, {}) | {name: value})
        message = str(refused.value)
        assert name in message
        assert "at most" in message or "less than" in message
        assert len(message.splitlines()) <= 3


@pytest.mark.parametrize("name", ["a.b", ".", "a/b", "a:b", "a%b", "a'b", "a b", "", "a" * 201, "-a", "ä"])
def test_a_model_name_that_mlflow_refuses_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        RegistryConfig(model_name=name)
    RegistryConfig(model_name="Rnnlm-a_1")
