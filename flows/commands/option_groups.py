"""Parameters of a command that become several options: the fields of a config class, or some fields of a dataclass."""

import dataclasses
import inspect
import types
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo

from rnnlm.config.validation import bounds_text, validated
from rnnlm.extension_points import Point, plugged


class OptionGroup(Protocol):
    """An annotation that converts a parameter of type `kind` to several options."""

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        """Return Typer's annotation and the default of each option.

        The default of a required option is Parameter.empty.
        """

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        """Return the parameter's value, given the values of its options."""


@dataclasses.dataclass(frozen=True)
class SectionFields:
    """An annotation that converts fields of a config class to options with the descriptions of the fields.

    Pydantic parses the options' values from text.
    """

    names: dict[str, str]  # The option's name for each field.
    # The environment variables of some fields, each of which is used if the option is not given.
    variables: dict[str, str]

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        return {
            field: field_option(option, kind.model_fields[field], self.variables.get(field))
            for field, option in self.names.items()
        }

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        """Return the section.

        Its `model_fields_set` contains the fields whose options were given. If a value is wrong, raise a ConfigError
        with the name of the option.
        """
        given = {
            field: parsed(value, kind.model_fields[field])
            for field, value in values.items()
            if value not in (None, False)
        }
        return validated(kind, given, lambda path: self.names.get(path.split(".")[0], path))


def fields(*names: str, prefix: str = "", variables: dict[str, str] | None = None, **renamed: str) -> SectionFields:
    """Return options --PREFIX-NAME for the fields `names`, and options with other names for those in `renamed`."""
    options = {name: name for name in names} | {field: option for option, field in renamed.items()}
    named = {field: f"--{prefix}{option}".replace("_", "-") for field, option in options.items()}
    return SectionFields(named, variables or {})


def parsed(value: str | bool, field: FieldInfo) -> Any:
    """Return the parsed value of an option.

    A flag inverts the field's default, and commas separate the items of a list.
    """
    if isinstance(value, bool):
        return not field.default
    return [part.strip() for part in value.split(",")] if takes_list(field) else value


@dataclasses.dataclass(frozen=True)
class AddedFields:
    """Options for all fields of the sections that extensions add at one extension point.

    The parameter's value is a tuple of the sections.
    """

    point: Point

    def groups(self) -> list[tuple[type[Any], SectionFields]]:
        return [(section, fields(*section.model_fields)) for section in plugged(self.point)]

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        return {name: option for section, group in self.groups() for name, option in group.options(section).items()}

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        return tuple(
            group.value(section, {field: values[field] for field in section.model_fields})
            for section, group in self.groups()
        )


@dataclasses.dataclass(frozen=True)
class SomeFields:
    """Options for some fields of a dataclass. Each field has an annotation for Typer."""

    names: tuple[str, ...]

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        hints = get_type_hints(kind, include_extras=True)
        return {name: (hints[name], getattr(kind, name)) for name in self.names}

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        return kind(**values)


def some_of(*names: str) -> SomeFields:
    return SomeFields(names)


@dataclasses.dataclass(frozen=True)
class PlainOption:
    """A group of one option, for a parameter that Typer can process directly."""

    name: str
    parameter: inspect.Parameter

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        return {self.name: (self.parameter.annotation, self.parameter.default)}

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        return values[self.name]


def field_option(option: str, field: FieldInfo, variable: str | None) -> tuple[Any, Any]:
    """Return Typer's annotation and default for the option of a field.

    A boolean field becomes a flag that inverts its default.
    """
    if isinstance(field.default, bool):
        return Annotated[bool, typer.Option(option, help=field_help(field))], False
    settings = typer.Option(
        option,
        help=field_help(field),
        metavar=metavar(option, field.annotation),
        envvar=variable,
        show_envvar=False,
        show_default=False,
    )
    if field.is_required():
        return Annotated[str, settings], inspect.Parameter.empty
    return Annotated[str | None, settings], None


def takes_list(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is tuple


def metavar(option: str, annotation: Any) -> str:
    """Return the placeholder for the option's value in --help: N, the choices, or the option's name."""
    origin = get_origin(annotation)
    # The annotation is X | None, or X with bounds. The type X determines the placeholder.
    if origin in (types.UnionType, Union, Annotated):
        return metavar(option, get_args(annotation)[0])
    if origin is tuple:
        return "N,…" if get_origin(get_args(annotation)[0]) is Annotated else "NAME,…"
    if origin is Literal:
        return "|".join(get_args(annotation))
    return "N" if annotation in (int, float) else option.removeprefix("--").upper()


def field_help(field: FieldInfo) -> str:
    """Return the field's description, followed by choices, bounds and default in parentheses."""
    notes = []
    item = get_args(field.annotation)[0] if takes_list(field) else None
    if get_origin(item) is Literal:
        notes.append(f"of {', '.join(get_args(item))}")
    notes += filter(None, [bounds_text(field)])
    default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    if not (field.is_required() or default in (None, "") or isinstance(default, bool)):
        notes.append(f"default: {default}")
    text = (field.description or "").removesuffix(".")
    return f"{text[:1].upper()}{text[1:]} ({'; '.join(notes)})." if notes else f"{text[:1].upper()}{text[1:]}."
