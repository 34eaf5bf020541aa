"""Presets and single-field overrides: how a PipelineConfig comes about. Presets live in prefect.yaml."""

import types
from collections.abc import Sequence
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from rnnlm.config import PipelineConfig
from rnnlm.errors import ConfigError
from rnnlm.package_files import package_file
from rnnlm.redaction import redacted

M = TypeVar("M", bound=BaseModel)


def read_presets() -> dict[str, dict[str, Any]]:
    """Preset name → nested overrides of PipelineConfig's defaults."""
    text = package_file("prefect.yaml").read_text(encoding="utf-8")
    presets: dict[str, dict[str, Any]] = yaml.safe_load(text)["definitions"]["presets"]
    return presets


def build_config(
    preset: str = "default",
    overrides: Sequence[str] = (),
    corpus: str | None = None,
    force: Sequence[str] = (),
) -> PipelineConfig:
    """The preset, then `section.field=value` overrides in order. ConfigError names the field that is wrong."""
    presets = read_presets()
    if preset not in presets:
        raise ConfigError(f"unknown preset {preset!r}; there are: {', '.join(presets)}")
    values: dict[str, Any] = {name: dict(section) for name, section in (presets[preset] or {}).items()}
    for override in overrides:
        section, field, value = parse_override(override)
        values.setdefault(section, {})[field] = value
    if corpus is not None:
        values.setdefault("corpus", {})["source"] = corpus
    values["force"] = list(force)
    return validate_config(values)


def parse_override(override: str) -> tuple[str, str, Any]:
    """'model.hidden_size=64' → ('model', 'hidden_size', 64). Values are read as YAML scalars or lists."""
    path, equals, text = override.partition("=")
    section, dot, field = path.partition(".")
    if not (equals and dot and section and field):
        raise ConfigError(f"--set {override!r}: expected section.field=value, such as model.hidden_size=256")
    sections = [name for name in PipelineConfig.model_fields if name != "force"]
    if section not in sections:
        raise ConfigError(f"--set {path}: unknown section {section!r}; there are: {', '.join(sections)}")
    model = PipelineConfig.model_fields[section].annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)
    if field not in model.model_fields:
        raise ConfigError(f"--set {path}: unknown field {field!r}; {section} has: {', '.join(model.model_fields)}")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    if isinstance(value, str) or wants_text(model.model_fields[field].annotation):
        value = number_or_text(text, value, model.model_fields[field].annotation)
    return section, field, value


def wants_text(annotation: Any) -> bool:
    """True for `str` and `str | None`: there 'yes', '12' and '1e3' are text."""
    if isinstance(annotation, types.UnionType):
        return all(part in (str, type(None)) for part in annotation.__args__)
    return annotation is str


def number_or_text(text: str, value: Any, annotation: Any) -> Any:
    """YAML reads 2e-3 as text, and 'null' as nothing: repair the first, keep the second."""
    if wants_text(annotation):
        return None if text in ("null", "none", "None") else text
    try:
        return float(text)
    except ValueError:
        return value


def validate_config(values: dict[str, Any]) -> PipelineConfig:
    """PipelineConfig, or a ConfigError of at most three lines that names each wrong field."""
    return validated(PipelineConfig, values)


def validate_section(section: str, model: type[M], values: dict[str, Any]) -> M:
    """One section alone, for commands that need no whole configuration."""
    return validated(model, values, section)


def validated(model: type[M], values: dict[str, Any], section: str | None = None) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = []
        fields = model.model_fields
        for problem in error.errors():
            path = [*([section] if section else []), *(str(part) for part in problem["loc"])]
            secret = "SecretStr" in str(fields[path[-1]].annotation) if path and path[-1] in fields else False
            got = (
                "" if secret or isinstance(problem["input"], dict) else f"; got {redacted(repr(problem['input'])):.60}"
            )
            lines.append(f"{'.'.join(path) or 'configuration'}: {problem['msg']}{got}")
        more = [f"(and {len(lines) - 2} more)"] if len(lines) > 2 else []
        raise ConfigError("\n".join(lines[:2] + more)) from None
