"""How a function becomes a command: Typer reads its signature, with two kinds of parameters of our own.

A `Session` parameter becomes --json, a `FlowSession` also --verbose and --quiet. A parameter that is annotated with an
OptionGroup becomes several options: one per field of a config class (`fields`), or some of a dataclass (`some_of`).
"""

import contextlib
import dataclasses
import functools
import inspect
import json
import logging
import sys
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Protocol, TextIO, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo
from rich.markup import escape

from rnnlm.config.validation import bounds_text, validated
from rnnlm.extension_points import Point, plugged
from rnnlm.storage.disk_errors import full_disk_explained
from rnnlm.storage.home import Home, find_home

FlowResult = TypeVar("FlowResult")


@dataclasses.dataclass(frozen=True)
class Session:
    """A command's session: its home, and where results go."""

    home: Home
    out: TextIO
    json: bool

    def print_result(self, text: str, value: Any) -> None:
        """Print `text` for people, or `value` as JSON with --json, on standard output. value: may hold records."""
        print(json_of(value) if self.json else text, file=self.out, flush=True)


def json_of(value: Any) -> str:
    """Return a value, which may hold records, as JSON. Numbers that JSON does not have, such as NaN, become null."""
    text = json.dumps(value, default=lambda record: record.model_dump(mode="json"))
    return json.dumps(json.loads(text, parse_constant=lambda name: None))


@dataclasses.dataclass(frozen=True)
class ReadingSession(Session):
    """A session of a command that stores nothing: it makes no home, and runs where it may not write."""


@dataclasses.dataclass(frozen=True)
class FlowSession(Session):
    """A session of a command that runs a flow."""

    verbose: bool
    quiet: bool

    def run_flow(self, flow: Callable[..., FlowResult], *arguments: Any, **settings: Any) -> FlowResult:
        """Run a flow on the configured Prefect server, or on a temporary one."""
        if not self.quiet:  # imports and a temporary Prefect server take seconds
            print(f"starting {flow.__name__.removesuffix('_flow')} …", file=sys.stderr, flush=True)
        from flows.operations.console import Detail
        from flows.operations.flow_runner import run_flow

        detail = Detail.ALL if self.verbose else Detail.WARNINGS if self.quiet else Detail.STAGES
        return run_flow(self.home, flow, *arguments, detail=detail, **settings)


SESSION_FLAGS = {  # field of a session → its help
    "json": "Print one JSON value on standard output.",
    "verbose": "Show everything that Prefect logs.",
    "quiet": "Show only warnings and the result.",
}


class OptionGroup(Protocol):
    """Annotation of a parameter of type `kind` that stands for several options."""

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        """Field → Typer's annotation, and the default (inspect.Parameter.empty: required)."""

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        """The parameter's value, from the options' values by field."""


@dataclasses.dataclass(frozen=True)
class SectionFields:
    """Fields of a config class as options, described by the class; their values reach pydantic as text."""

    names: dict[str, str]  # field → option
    variables: dict[str, str]  # field → environment variable with its value, unless the option is given

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        return {
            field: field_option(option, kind.model_fields[field], self.variables.get(field))
            for field, option in self.names.items()
        }

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        """The section; `model_fields_set` tells which options were given. ConfigError names the wrong option."""
        given = {
            field: parsed(value, kind.model_fields[field])
            for field, value in values.items()
            if value not in (None, False)
        }
        return validated(kind, given, lambda path: self.names.get(path.split(".")[0], path))


def fields(*names: str, prefix: str = "", variables: dict[str, str] | None = None, **renamed: str) -> SectionFields:
    """The options --PREFIX-NAME, and those whose field has another name. renamed: option → field."""
    options = {name: name for name in names} | {field: option for option, field in renamed.items()}
    named = {field: f"--{prefix}{option}".replace("_", "-") for field, option in options.items()}
    return SectionFields(named, variables or {})


def parsed(value: str | bool, field: FieldInfo) -> Any:
    """A flag that was given inverts its field's default; a list is separated by commas."""
    if isinstance(value, bool):
        return not field.default
    return [part.strip() for part in value.split(",")] if takes_list(field) else value


@dataclasses.dataclass(frozen=True)
class AddedFields:
    """All fields of the sections that extensions add at a point, as options. The value is a tuple of the sections."""

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
    """Fields of a dataclass whose annotations are Typer's."""

    names: tuple[str, ...]

    def options(self, kind: type[Any]) -> dict[str, tuple[Any, Any]]:
        hints = get_type_hints(kind, include_extras=True)
        return {name: (hints[name], getattr(kind, name)) for name in self.names}

    def value(self, kind: type[Any], values: dict[str, Any]) -> Any:
        return kind(**values)


def some_of(*names: str) -> SomeFields:
    return SomeFields(names)


def load_command(module: types.ModuleType, name: str, subcommands: tuple[str, ...]) -> Any:
    """Typer's command for the function NAME_command of a module.

    With subcommands it is a group of the functions NAME_SUBCOMMAND_command, and the function runs if none of them is
    named; without parameters it only describes the group.
    """
    app, group = typer.Typer(), typer.Typer()
    function = getattr(module, f"{name.replace('-', '_')}_command")
    for subcommand in subcommands:
        below = getattr(module, f"{name}_{subcommand}_command")
        group.command(subcommand, **help_of(below))(as_typer_command(below))
    if not subcommands:
        app.command(name, **help_of(function))(as_typer_command(function))
    elif inspect.signature(function).parameters:
        group.callback(**help_of(function), invoke_without_command=True)(as_typer_command(function))
        app.add_typer(group, name=name)
    else:
        app.add_typer(group, name=name, help=function.__doc__, no_args_is_help=True)
    return typer.main.get_group(app).commands[name]


def help_of(function: Callable[..., None]) -> dict[str, Any]:
    """A docstring as help: one sentence, perhaps details, and examples in the last paragraph."""
    text, _, examples = inspect.cleandoc(function.__doc__ or "").rpartition("\n\n")
    lines = examples.splitlines()
    title = "examples:" if len(lines) > 1 else "example:"
    return {"help": text, "epilog": escape("\n\n".join([title, *(f"  {line}" for line in lines)]))}


def as_typer_command(function: Callable[..., None]) -> Callable[..., None]:
    """The function with its session and groups of options replaced by plain options, as Typer wants it.

    Running it opens a session: home and environment set, standard output reserved for results.
    """
    options: dict[str, tuple[Any, Any]] = {"context": (typer.Context, inspect.Parameter.empty)}
    groups: dict[str, tuple[type[Any], OptionGroup]] = {}  # parameter → its type and its group
    session_name, session_kind = "", Session
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, *metadata = get_args(parameter.annotation) or (parameter.annotation,)
        if isinstance(kind, type) and issubclass(kind, Session):
            session_name, session_kind = name, kind
        elif metadata and hasattr(metadata[0], "options"):
            groups[name] = kind, metadata[0]
            own = metadata[0].options(kind)
            assert options.keys().isdisjoint(own), "two options of one name"
            options |= own
        else:
            options[name] = parameter.annotation, parameter.default
    flags = [field.name for field in dataclasses.fields(session_kind) if field.name in SESSION_FLAGS]
    options |= {flag: (Annotated[bool, typer.Option(f"--{flag}", help=SESSION_FLAGS[flag])], False) for flag in flags}

    @functools.wraps(function)
    def run(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is not None:
            return
        with open_session(session_kind, {flag: values.pop(flag) for flag in flags}) as session:
            for name, (kind, group) in groups.items():
                values[name] = group.value(kind, {field: values.pop(field) for field in group.options(kind)})
            function(**values, **{session_name: session})

    run.__annotations__ = {name: annotation for name, (annotation, _) in options.items()}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]
    )
    return run


@contextlib.contextmanager
def open_session(kind: type[Session], flags: dict[str, bool]) -> Iterator[Session]:
    """Set up home and environment. What libraries print, and their warnings, go to standard error."""
    from flows.operations.prefect_environment import set_environment

    home = find_home()
    set_environment(home, stores=kind is not ReadingSession)
    out = sys.stdout
    if kind is not FlowSession:  # whose log lines Prefect shows
        logging.basicConfig(level=logging.WARNING, format="rnnlm: %(message)s", stream=sys.stderr)
    with contextlib.redirect_stdout(sys.stderr), full_disk_explained(home.root):
        yield kind(home=home, out=out, **flags)


def field_option(option: str, field: FieldInfo, variable: str | None) -> tuple[Any, Any]:
    """Typer's annotation and default of a field's option. A boolean field becomes a flag that inverts its default."""
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
    """The placeholder of the value in --help: N, a choice, or the option's name."""
    origin = get_origin(annotation)
    if origin in (types.UnionType, Union, Annotated):  # X | None, or X with bounds
        return metavar(option, get_args(annotation)[0])
    if origin is tuple:
        return "N,…" if get_origin(get_args(annotation)[0]) is Annotated else "NAME,…"
    if origin is Literal:
        return "|".join(get_args(annotation))
    return "N" if annotation in (int, float) else option.removeprefix("--").upper()


def field_help(field: FieldInfo) -> str:
    """The field's description with its choices (of a tuple), bounds and default."""
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
