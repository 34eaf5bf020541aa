"""Sections of the configuration, and facts about their fields: description, bounds and effect on results."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model
from pydantic.fields import FieldInfo

from rnnlm.extension_points import added_sections

S = TypeVar("S", bound="Section")


class Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False, validate_default=True
    )

    # Removed fields with their defaults. They still belong to the keys of outputs, so that existing outputs are found.
    former_fields: ClassVar[dict[str, JsonValue]] = {}
    changeable: ClassVar[tuple[str, ...]] = ()  # The fields that may change when an unfinished run is resumed.

    def resolved(self) -> Self:
        """Return the section in which nulls are replaced by the values that other fields determine."""
        return self

    def check_with(self, whole: Any) -> None:
        """Raise ValueError if the section is incompatible with the PipelineConfig that contains it."""

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return all fields that change in a resumed run if the user makes these `changes`."""
        return dict(changes)

    def facts(self) -> dict[str, str]:
        """Return the names and values of this section that pages about a run show.

        The dictionary may be empty if all values are the defaults.
        """
        return {}

    def subject(self) -> tuple[Any, str] | None:
        """Return the CorpusConfig and the preset that name a flow run with this section as its parameter.

        Return None if the flow run is not about a text.
        """
        return None

    @classmethod
    def of(cls, parent: "Section") -> Self:
        """Return the section of this class in `parent`."""
        return next(value for _, value in parent if isinstance(value, cls))

    def sections(self, path: str = "") -> "Iterator[tuple[str, Section]]":
        """Yield the dotted path and the value of every section below this one."""
        for name, value in self:
            if isinstance(value, Section):
                yield f"{path}{name}", value
                yield from value.sections(f"{path}{name}.")


def with_added_sections(path: str) -> Callable[[type[S]], type[S]]:
    """Decorate the class of a section in order to add the sections of extensions to it.

    `path` is the section's path in the whole configuration. pydantic and users see the added fields as ordinary ones.
    Python code reads an added section by `TeacherConfig.of(config.training)`, because the static types do not contain
    it.
    """

    def extended(kind: type[S]) -> type[S]:
        fields: dict[str, Any] = {
            name: (added, setting(added(), facts.description, added_later=facts.added_later))
            for name, facts, added in added_sections(path)
        }
        if not fields:
            return kind
        model: type[S] = create_model(
            kind.__name__, __base__=kind, __module__=kind.__module__, __doc__=kind.__doc__, **fields
        )
        return model

    return extended


def setting(
    default: Any, description: str, *, changes_results: bool = True, added_later: bool = False, **bounds: Any
) -> Any:
    """Return a pydantic Field for a setting.

    If `changes_results` is false, the field cannot change the result of its stage. If `added_later` is true, the
    default gives the same results as before the field existed. A field with this default is not part of any key, so
    that older outputs keep their names.
    """
    extra: dict[str, JsonValue] = {"changes_results": changes_results}
    if added_later:
        extra["added_later"] = True
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def changes_results(field: FieldInfo) -> bool:
    return fact_of(field, "changes_results") is not False


def fact_of(field: FieldInfo, name: str) -> Any:
    """Return the value that setting() has stored with the field under `name`, or None if there is none."""
    return field.json_schema_extra.get(name) if isinstance(field.json_schema_extra, dict) else None


def result_settings(section: Section) -> dict[str, Any]:
    """Return the section as JSON values, from which stages compute the keys of their outputs.

    Fields that cannot change a result are omitted, and so are fields that were added later if they have their default.
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
