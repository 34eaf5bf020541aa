"""A section of the configuration, and what is known of its fields: description, bounds, effect on results."""

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.fields import FieldInfo


class Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False, validate_default=True
    )

    former_fields: ClassVar[dict[str, JsonValue]] = {}  # removed ones at their defaults, which are still in keys

    def resolved(self) -> Self:
        """With values in place of those nulls that mean "what suits the other fields"."""
        return self


def setting(
    default: Any, description: str, *, changes_results: bool = True, added_later: bool = False, **bounds: Any
) -> Any:
    """A pydantic Field.

    changes_results=False: the field cannot change the result of its stage.
    added_later: the default is what was done before the field existed. At its default the field is in no key, so that
    what was made before keeps its name.
    """
    extra: dict[str, JsonValue] = {"changes_results": changes_results}
    if added_later:
        extra["added_later"] = True
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def changes_results(field: FieldInfo) -> bool:
    return fact_of(field, "changes_results") is not False


def fact_of(field: FieldInfo, name: str) -> Any:
    """A fact that setting() has stored with the field; None if there is none."""
    return field.json_schema_extra.get(name) if isinstance(field.json_schema_extra, dict) else None


def result_settings(section: Section) -> dict[str, Any]:
    """The section as JSON values, without the fields that cannot change a result. Stages compute their keys from it.

    Also without the fields that were added later and have their default.
    """
    section = section.resolved()
    values = section.model_dump(mode="json")
    settings: dict[str, Any] = dict(section.former_fields)
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        as_before = fact_of(field, "added_later") and value == field.default
        if changes_results(field) and not as_before:
            settings[name] = result_settings(value) if isinstance(value, Section) else values[name]
    return settings
