"""How a function becomes a command: Typer reads its signature, with two kinds of parameters of our own.

A `Session` parameter becomes --json, a `FlowSession` also --verbose and --quiet. A `Given` parameter becomes one
option per field of a config class. Values of such options reach pydantic as text, so each is validated once.
"""

import contextlib
import dataclasses
import functools
import inspect
import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TextIO, TypeVar, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from rich.markup import escape

from rnnlm.config import Section
from rnnlm.config.validation import bounds_text, validated
from rnnlm.home import Home, find_home
from rnnlm.storage.disk_errors import full_disk_explained

SectionT = TypeVar("SectionT", bound=Section)
FlowResult = TypeVar("FlowResult")


@dataclasses.dataclass(frozen=True)
class Session:
    """A command's session: its home, and where results go."""

    home: Home
    as_json: bool
    out: TextIO

    def print_result(self, text: str, value: Any) -> None:
        """Print `text` for people, or `value` as JSON with --json, on standard output."""
        print(json.dumps(value) if self.as_json else text, file=self.out, flush=True)


@dataclasses.dataclass(frozen=True)
class ReadingSession(Session):
    """A session of a command that stores nothing: it makes no home, and runs where it may not write."""


@dataclasses.dataclass(frozen=True)
class FlowSession(Session):
    """A session of a command that runs a flow."""

    verbose: bool = False
    quiet: bool = False

    def run_flow(self, flow: Callable[..., FlowResult], *arguments: Any, **settings: Any) -> FlowResult:
        """Run a flow on the configured Prefect server, or on a temporary one."""
        if not self.quiet:  # imports and a temporary Prefect server take seconds
            print(f"starting {flow.__name__.removesuffix('_flow')} …", file=sys.stderr, flush=True)
        from flows.operations.console import Detail
        from flows.operations.flow_runner import run_flow

        detail = Detail.ALL if self.verbose else Detail.WARNINGS if self.quiet else Detail.STAGES
        return run_flow(self.home, flow, *arguments, detail=detail, **settings)


class Given(dict[str, Any]):
    """Field → text (or bool, from a flag), for those of a section's options that are on the command line."""

    def __init__(self, options: dict[str, str], values: dict[str, Any]) -> None:
        super().__init__(values)
        self.options = options  # field → option, such as --port

    def section(self, config: type[SectionT], defaults: dict[str, Any] | None = None) -> SectionT:
        """The section with these values over `defaults` over the fields' own. ConfigError names the wrong option."""
        values = {
            field: [part.strip() for part in text.split(",")] if takes_list(config.model_fields[field]) else text
            for field, text in self.items()
        }
        return validated(config, (defaults or {}) | values, lambda path: self.options.get(path.split(".")[0], path))


@dataclasses.dataclass(frozen=True)
class Fields:
    """Annotation of a Given parameter: the fields of `config` to offer as options, and those under another name."""

    config: type[Section]
    names: tuple[str, ...]
    renamed: dict[str, str]  # option → field
    prefix: str

    def options(self) -> dict[str, str]:
        """Field → option."""
        names = {field: field for field in self.names} | {field: option for option, field in self.renamed.items()}
        return {field: f"--{self.prefix}{option}".replace("_", "-") for field, option in names.items()}

    def given(self, values: dict[str, str | bool | None]) -> Given:
        """Those of the options' values that were given. A flag that was given inverts its field's default."""
        found = {field: value for field, value in values.items() if value not in (None, False)}
        inverted = {
            field: not self.config.model_fields[field].default for field, value in found.items() if value is True
        }
        return Given(self.options(), found | inverted)


def fields(config: type[Section], *names: str, prefix: str = "", **renamed: str) -> Fields:
    return Fields(config, names, renamed, prefix)


def add_command(
    app: typer.Typer, name: str, function: Callable[..., None], subcommands: typer.Typer | None = None
) -> None:
    """Add a command. Its docstring is its help: one sentence, perhaps details, and examples in the last paragraph.

    subcommands: commands below this one, which runs if none of them is named.
    """
    text, _, examples = inspect.cleandoc(function.__doc__ or "").rpartition("\n\n")
    lines = examples.splitlines()
    epilog = escape("\n\n".join(["examples:" if len(lines) > 1 else "example:", *(f"  {line}" for line in lines)]))
    command = as_typer_command(function)
    if subcommands is None:
        app.command(name, help=text, epilog=epilog)(command)
    else:
        subcommands.callback(help=text, epilog=epilog, invoke_without_command=True)(unless_subcommand(command))
        app.add_typer(subcommands, name=name)


def unless_subcommand(command: Callable[..., None]) -> Callable[..., None]:
    """The command of a group: it does nothing if one of the group's commands is called."""

    @functools.wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is None:
            command(**values)

    own = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [own, *inspect.signature(command).parameters.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def add_group(app: typer.Typer, name: str, group: typer.Typer, opening: str) -> None:
    """Add a group of commands; without one of them it prints its help."""
    app.add_typer(group, name=name, help=opening, no_args_is_help=True)


def as_typer_command(function: Callable[..., None]) -> Callable[..., None]:
    """The function with its Session and Given parameters replaced by plain options, as Typer wants it.

    Running it opens a session: home and environment set, standard output reserved for results.
    """
    plain: list[inspect.Parameter] = []
    groups: dict[str, Fields] = {}  # Given parameter → its fields
    kind: type[Session] = Session
    session_name = ""
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, type) and issubclass(annotation, Session):
            session_name, kind = parameter.name, annotation
        elif get_origin(annotation) is Annotated and isinstance(group := get_args(annotation)[1], Fields):
            groups[parameter.name] = group
            plain += [
                field_parameter(f"{parameter.name}__{field}", option, group.config.model_fields[field])
                for field, option in group.options().items()
            ]
        else:
            plain.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    flags = flag_parameters(kind)
    plain += flags

    @functools.wraps(function)
    def run(**values: Any) -> None:
        session_fields = {FLAGS[flag.name]: values.pop(flag.name) for flag in flags}
        arguments = {name: value for name, value in values.items() if "__" not in name}
        for name, group in groups.items():
            arguments[name] = group.given({field: values[f"{name}__{field}"] for field in group.options()})
        with open_session(kind, session_fields) as session:
            function(**arguments, **{session_name: session})

    run.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in plain}
    return run


FLAGS = {"json": "as_json", "verbose": "verbose", "quiet": "quiet"}  # option → field of the session
FLAG_HELP = {
    "json": "Print one JSON value on standard output.",
    "verbose": "Show everything that Prefect logs.",
    "quiet": "Show only warnings and the result.",
}


def flag_parameters(kind: type[Session]) -> list[inspect.Parameter]:
    names = [flag for flag, field in FLAGS.items() if field in {one.name for one in dataclasses.fields(kind)}]
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(f"--{name}", help=FLAG_HELP[name])],
        )
        for name in names
    ]


@contextlib.contextmanager
def open_session(kind: type[Session], flags: dict[str, bool]) -> Iterator[Session]:
    """Set up home and environment. Send what libraries print to standard error."""
    from flows.operations.prefect_environment import set_environment

    home = find_home()
    set_environment(home, stores=kind is not ReadingSession)
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr), full_disk_explained(home.root):
        yield kind(home=home, out=out, **flags)


def field_parameter(name: str, option: str, field: FieldInfo) -> inspect.Parameter:
    """An option that is described by the field. A boolean field becomes a flag that inverts its default."""
    annotation: Any
    if isinstance(field.default, bool):
        annotation = Annotated[bool, typer.Option(option, help=field_help(field))]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
    settings: dict[str, Any] = {
        "help": field_help(field),
        "metavar": metavar(option, field.annotation),
        "show_default": False,
    }
    if field.is_required():
        annotation = Annotated[str, typer.Option(option, **settings)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    annotation = Annotated[str | None, typer.Option(option, **settings)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


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
