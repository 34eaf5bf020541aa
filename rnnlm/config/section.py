"""A section of the configuration, and what is known of its fields: description, bounds, effect on results."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.fields import FieldInfo


class Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False, validate_default=True
    )


def setting(default: Any, description: str, *, changes_results: bool = True, **bounds: Any) -> Any:
    """A pydantic Field. changes_results=False: the field cannot change the result of its stage."""
    extra: dict[str, JsonValue] = {"changes_results": changes_results}
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def changes_results(field: FieldInfo) -> bool:
    return field.json_schema_extra != {"changes_results": False}


def result_settings(section: Section) -> dict[str, Any]:
    """The section as JSON values, without the fields that cannot change a result. Stages compute their keys from it."""
    values = section.model_dump(mode="json")
    settings = {}
    for name, field in type(section).model_fields.items():
        if changes_results(field):
            value = getattr(section, name)
            settings[name] = result_settings(value) if isinstance(value, Section) else values[name]
    return settings
