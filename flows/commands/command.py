"""Convert a function to a Typer command. Parameters of two types become several options.

A `Session` parameter becomes the option --json, and a `FlowSession` parameter also --verbose and --quiet. A parameter
with an OptionGroup as annotation (option_groups.py) becomes several options.
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
from typing import Annotated, Any, TextIO, get_args

import typer
from rich.markup import escape

from flows.commands.option_groups import OptionGroup, PlainOption
from rnnlm.display.text_layout import TerminalFormatter, terminal_text
from rnnlm.errors import HomeError
from rnnlm.storage.disk_errors import FULL, check_space, full_disk_explained
from rnnlm.storage.home import Home, find_home


@dataclasses.dataclass(frozen=True)
class Session:
    """The session of a command: its rnnlm home and the stream to which its results are printed."""

    home: Home
    out: TextIO
    json: bool

    def print_result(self, text: str, value: Any) -> None:
        """Print `text` to standard output, or `value` as JSON with --json. The value may contain records."""
        self.print_line(json_of(value) if self.json else terminal_text(text))

    def print_line(self, text: str) -> None:
        """Print text to standard output. Raise HomeError if the disk to which the output is written is full."""
        try:
            print(text, file=self.out, flush=True)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise HomeError(f"standard output: the disk is full ({error.strerror}); write to another disk") from error


def json_of(value: Any) -> str:
    """Return a value, which may contain records, as JSON. Numbers that JSON lacks, such as NaN, become null."""
    text = json.dumps(value, default=lambda record: record.model_dump(mode="json"))
    return json.dumps(json.loads(text, parse_constant=lambda name: None))


@dataclasses.dataclass(frozen=True)
class ReadingSession(Session):
    """The session of a command that stores nothing. It creates no rnnlm home, and accepts a read-only home."""


@dataclasses.dataclass(frozen=True)
class FlowSession(Session):
    """The session of a command that runs a flow."""

    verbose: bool
    quiet: bool

    def run_flow(self, place: str, *arguments: Any, **settings: Any) -> Any:
        """Run the flow at a place such as flows.pipeline_flow:pipeline_flow, and return its result.

        The flow runs on the configured Prefect server, or on a temporary server.
        """
        check_space(self.home.root)
        if not self.quiet:  # The line is printed before the imports and a temporary Prefect server, which take seconds.
            name = place.rpartition(":")[2].removesuffix("_flow")
            print(f"starting {name} …", file=sys.stderr, flush=True)
        from flows.operations.console import Detail
        from flows.operations.flow_runner import run_flow

        detail = Detail.ALL if self.verbose else Detail.WARNINGS if self.quiet else Detail.STAGES
        return run_flow(self.home, place, *arguments, detail=detail, **settings)


SESSION_FLAGS = {  # The help text of each flag that a session adds to its command.
    "json": "Print one JSON value on standard output.",
    "verbose": "Show everything that Prefect logs.",
    "quiet": "Show only warnings and the result.",
}


def load_command(module: types.ModuleType, name: str, subcommands: tuple[str, ...]) -> Any:
    """Return Typer's command for the function NAME_command of a module.

    With subcommands, the result is a group of the functions NAME_SUBCOMMAND_command. If no subcommand is given, the
    function NAME_command runs. If this function has no parameters, it only provides the group's description.
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
        app.add_typer(group, name=name, help=flowing(function.__doc__ or ""), no_args_is_help=True)
    return typer.main.get_group(app).commands[name]


def help_of(function: Callable[..., None]) -> dict[str, Any]:
    """Return Typer's arguments for a docstring: all paragraphs but the last as help, and the last one as examples."""
    text, _, examples = inspect.cleandoc(function.__doc__ or "").rpartition("\n\n")
    lines = examples.splitlines()
    title = "examples:" if len(lines) > 1 else "example:"
    return {"help": flowing(text), "epilog": escape("\n\n".join([title, *(f"  {line}" for line in lines)]))}


def flowing(text: str) -> str:
    """Return the text with each paragraph in one line, because the terminal may be narrower or wider than the code."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


@dataclasses.dataclass
class CommandParameters:
    """The parameters of a command's function in order, and the options that Typer needs for them."""

    session: str = ""  # The name of the parameter whose type is Session.
    session_kind: type[Session] = Session
    # The groups of options. The keys are the names of their parameters.
    options: dict[str, OptionGroup] = dataclasses.field(default_factory=dict)
    kinds: dict[str, type[Any]] = dataclasses.field(default_factory=dict)  # The type of each parameter in `options`.

    @classmethod
    def of(cls, function: Callable[..., None]) -> "CommandParameters":
        """Read the parameters from the function's signature."""
        found = cls()
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            kind, *metadata = get_args(parameter.annotation) or (parameter.annotation,)
            if isinstance(kind, type) and issubclass(kind, Session):
                found.session, found.session_kind = name, kind
                continue
            is_group = bool(metadata) and hasattr(metadata[0], "options")
            found.options[name] = metadata[0] if is_group else PlainOption(name, parameter)
            found.kinds[name] = kind
        return found

    @property
    def flags(self) -> list[str]:
        """The flags of the session, such as json."""
        return [field.name for field in dataclasses.fields(self.session_kind) if field.name in SESSION_FLAGS]

    def signature(self) -> inspect.Signature:
        """Return a signature with a separate parameter for each option of a group and each flag of the session."""
        options: dict[str, tuple[Any, Any]] = {"context": (typer.Context, inspect.Parameter.empty)}
        for name, group in self.options.items():
            own = group.options(self.kinds[name])
            assert options.keys().isdisjoint(own), "two options of one name"
            options |= own
        for flag in self.flags:
            options[flag] = Annotated[bool, typer.Option(f"--{flag}", help=SESSION_FLAGS[flag])], False
        return inspect.Signature(
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for name, (annotation, default) in options.items()
            ]
        )

    def arguments(self, session: Session, values: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for the command's function, given the session and the values of the options."""
        arguments: dict[str, Any] = {self.session: session}
        for name, group in self.options.items():
            kind = self.kinds[name]
            arguments[name] = group.value(kind, {field: values[field] for field in group.options(kind)})
        return arguments


def as_typer_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return `function` with one parameter for each option instead of its session and groups of options.

    When the returned function runs, it opens a session, which sets the environment and reserves standard output for
    results.
    """
    parameters = CommandParameters.of(function)

    @functools.wraps(function)
    def run(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is None:
            with open_session(
                parameters.session_kind, {flag: values.pop(flag) for flag in parameters.flags}
            ) as session:
                function(**parameters.arguments(session, values))

    signature = parameters.signature()
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def log_to_terminal(line_format: str, anew: bool = False) -> None:
    """Write warnings of all libraries to standard error. If `anew` is true, replace an earlier call's format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TerminalFormatter(logging.Formatter(line_format)))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=anew)


@contextlib.contextmanager
def open_session(kind: type[Session], flags: dict[str, bool]) -> Iterator[Session]:
    """Open the rnnlm home and set the environment. Warnings and other output of libraries go to standard error."""
    from flows.operations.prefect_environment import set_environment

    home = find_home()
    set_environment(home, stores=kind is not ReadingSession)
    out = sys.stdout
    if kind is not FlowSession:  # In a FlowSession, Prefect writes the log lines to the console.
        log_to_terminal("rnnlm: %(message)s")
    with contextlib.redirect_stdout(sys.stderr), full_disk_explained(home.root):
        yield kind(home=home, out=out, **flags)
