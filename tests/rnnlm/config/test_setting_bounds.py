"""Settings that are far out of range, and names that other systems refuse, are rejected before work begins."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.utils.models import _parse_model_uri
from mlflow.utils.validation import (
    _validate_logged_model_name,
    _validate_model_name,
)
from pydantic import ValidationError

import rnnlm
from rnnlm.config import RegistryConfig, TrackingConfig
from rnnlm.config.section import Section
from rnnlm.config.validation import validated
from rnnlm.errors import ConfigError

for found in pkgutil.walk_packages(rnnlm.__path__, "rnnlm."):
    if found.name.endswith("_config"):
        importlib.import_module(found.name)


def sections(parent: type[Section] = Section) -> Iterator[type[Section]]:
    """Yield the classes of all sections.

    If an extension adds to a section, the class with the additions is yielded. It has the same name as the original
    class.
    """
    for section in parent.__subclasses__():
        if all(below.__name__ != section.__name__ for below in section.__subclasses__()):
            yield section
        yield from sections(section)


def is_number(section: type[Section], name: str) -> bool:
    found: dict[str, Any] = section.model_json_schema()["properties"][name]
    return any(kind.get("type") in ("integer", "number") for kind in (found, *found.get("anyOf", [])))


REQUIRED = {
    "ScoringConfig": {"input": "a.txt", "output": "a.parquet"},
    "FilterConfig": {"input": "a.txt", "output": "kept", "keep": "tokens > 0"},
}
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


def accepted(section: type[Section], **values: object) -> bool:
    try:
        section.model_validate(values)
    except ValidationError:
        return False
    return True


def mlflow_accepts(name: str, *validators: Callable[[str], None]) -> bool:
    try:
        for validate in validators:
            validate(name)
    except MlflowException:
        return False
    return True


@pytest.mark.long
@given(st.text(st.sampled_from("aZ9_-./:%\"' \n\x00ä@"), max_size=6) | st.text())
@example("." * 2)
@example("a" * 201)
def test_a_model_name_that_mlflow_refuses_is_refused(name: str) -> None:
    """The setting registry.model_name refuses every name that MLflow refuses for models or in models:/NAME@ALIAS."""
    if accepted(RegistryConfig, model_name=name):
        assert mlflow_accepts(name, _validate_model_name, _validate_logged_model_name)
        assert _parse_model_uri(f"models:/{name}@champion").name == name
    assert accepted(RegistryConfig, model_name="Rnnlm-a_1")


@pytest.mark.parametrize("name", ["", " ", "\t", "a\n", "a\x00b", "\x7f", "a" * 501, "\ud800"])
def test_an_experiment_that_mlflow_or_its_database_refuses_is_refused(name: str) -> None:
    assert not accepted(TrackingConfig, experiment=name)
