"""A section of the configuration, and what is known of its fields: description, bounds, effect on results."""

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

    former_fields: ClassVar[dict[str, JsonValue]] = {}  # removed ones at their defaults, which are still in keys
    changeable: ClassVar[tuple[str, ...]] = ()  # fields that may change when an unfinished run is resumed

    def resolved(self) -> Self:
        """Return the section with values in place of those nulls that mean "what suits the other fields"."""
        return self

    def check_with(self, whole: Any) -> None:
        """Raise ValueError if the section does not fit the PipelineConfig that it belongs to."""

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of fields of a run that is resumed with changes of some that are `changeable`."""
        return dict(changes)

    def facts(self) -> dict[str, str]:
        """Return facts for the pages about a run, by their names.

        A section may have none if its values are the defaults.
        """
        return {}

    def subject(self) -> tuple[Any, str] | None:
        """Return CorpusConfig and preset that a flow run with this parameter is named for.

        None: it is about no text.
        """
        return None

    @classmethod
    def of(cls, parent: "Section") -> Self:
        """Return the section of this class among the fields of another section."""
        return next(value for _, value in parent if isinstance(value, cls))

    def sections(self, path: str = "") -> "Iterator[tuple[str, Section]]":
        """Yield dotted path and value of every section below this one."""
        for name, value in self:
            if isinstance(value, Section):
                yield f"{path}{name}", value
                yield from value.sections(f"{path}{name}.")


def with_added_sections(path: str) -> Callable[[type[S]], type[S]]:
    """Decorate a section's class with the sections that extensions add to it.

    path: of the section in the whole configuration. The fields are there for pydantic and for users; in Python
    `TeacherConfig.of(config.training)` finds one, because the spine's types do not know it.
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
    """Make a pydantic Field.

    changes_results=False: the field cannot change the result of its stage. added_later=True: the default is what was
    done before the field existed. At its default the field is in no key, so that what was made before keeps its name.
    """
    extra: dict[str, JsonValue] = {"changes_results": changes_results}
    if added_later:
        extra["added_later"] = True
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def changes_results(field: FieldInfo) -> bool:
    return fact_of(field, "changes_results") is not False


def fact_of(field: FieldInfo, name: str) -> Any:
    """Return a fact that setting() has stored with the field, or None if there is none."""
    return field.json_schema_extra.get(name) if isinstance(field.json_schema_extra, dict) else None


def result_settings(section: Section) -> dict[str, Any]:
    """Return the section as JSON values, without the fields that cannot change a result.

    Stages compute their keys from it.

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
