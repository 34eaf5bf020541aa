"""The `rnnlm` command, which parses arguments, runs a command of flows/commands and reports errors in a few lines."""

import ast
import atexit
import contextlib
import difflib
import functools
import importlib
import io
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from rnnlm.display.text_layout import terminal_text, visible
from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.runtime.garbage_collection import collect_rarely
from rnnlm.storage.disk_errors import FEWEST_FILES, shortage, too_few_files

USER_ERROR = 2
OPENING = "Train, evaluate, register and serve recurrent language models."
PLAIN_WORDS = {  # Simpler versions of some of pydantic's messages about numbers.
    r"Input should be a valid integer\b.*": "expected a whole number",
    r"Input should be greater than or equal to ": "expected at least ",
}
EXAMPLE = "example: rnnlm run --preset smoke --corpus my-text.txt"
# The headings in the overview of commands, from the first to the last.
HEADINGS = ("Pipeline", "Models", "Measure", "Text", "Every night", "Servers")
COMMAND_MODULES = Path(__file__).with_name("commands")


@dataclass(frozen=True)
class CommandPlace:
    """The location of a command: a function NAME_command in a module of flows/commands that defines HEADING."""

    heading: str
    module: str
    function: str
    # The names of the subcommands, which are functions NAME_SUBCOMMAND_command in the same module.
    subcommands: tuple[str, ...]


@functools.cache
def commands() -> dict[str, CommandPlace]:
    """Return all commands by name, ordered by heading. The modules are read as text and not imported."""
    found: dict[str, CommandPlace] = {}
    for path in sorted(COMMAND_MODULES.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        heading = re.search(r'^HEADING = "(.*)"$', source, re.MULTILINE)
        if heading is None:
            continue
        names = re.findall(r"^def (\w+)_command\(", source, re.MULTILINE)
        for name in names:
            if name.rpartition("_")[0] not in names:
                below = tuple(one.removeprefix(f"{name}_") for one in names if one.rpartition("_")[0] == name)
                found[name.replace("_", "-")] = CommandPlace(heading[1], path.stem, f"{name}_command", below)
    return dict(sorted(found.items(), key=lambda item: (HEADINGS.index(item[1].heading), item[0])))


class LazyGroup(TyperGroup):
    """A command group that imports a command's module only when it is called, so that `rnnlm --help` is fast."""

    def list_commands(self, context: Any) -> list[str]:
        return list(commands())

    def get_command(self, context: Any, name: str) -> Any:
        if name in commands() and name not in self.commands:
            place = commands()[name]
            from flows.commands.command import load_command

            imported = importlib.import_module(f"flows.commands.{place.module}")
            command = load_command(imported, name, place.subcommands)
            command.rich_help_panel = place.heading
            self.commands[name] = command
        return self.commands.get(name)

    def format_help(self, context: Any, formatter: Any) -> None:
        """Write the overview of commands from their docstrings, which are parsed and not imported."""
        overview = TyperGroup(name=self.name, params=self.params, help=self.help, epilog=self.epilog)
        overview.rich_markup_mode = self.rich_markup_mode
        for name, place in commands().items():
            sentence = docstrings(place.module)[place.function].partition("\n\n")[0]
            overview.add_command(TyperCommand(name=name, help=sentence, rich_help_panel=place.heading))
        overview.format_help(context, formatter)


@functools.cache
def docstrings(module: str) -> dict[str, str]:
    """Return the docstring of each function in a module of flows/commands."""
    tree = ast.parse(COMMAND_MODULES.joinpath(f"{module}.py").read_text(encoding="utf-8"))
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}


def show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"rnnlm {version('rnnlm')}")
        raise typer.Exit


app = typer.Typer(
    cls=LazyGroup,
    help=OPENING,
    epilog=EXAMPLE,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Handle the options that precede the command's name."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command, and return its exit code.

    The code is 0 on success, 2 after a user error, and 128 + the signal's number after an interruption.
    """
    try:
        with sigterm_raises():
            code = build_group().main(arguments, prog_name="rnnlm", standalone_mode=False) or 0
            # Typer has converted KeyboardInterrupt to the exit code 130 of SIGINT.
            return report_interruption(signal.SIGINT) if code == 128 + signal.SIGINT else int(code)
    except typer.TyperException as error:
        return report_wrong_call(error)
    except (RnnlmError, TrackingError) as error:
        complain(str(error))
        return USER_ERROR
    except OSError as error:  # A disk, path or pipe caused this error, and no other code reports it.
        return report_system_error(error)
    except Exception as error:  # This error occurred during imports, before the command began.
        if (reason := shortage(error)) is None:
            raise
        complain(reason)
        return USER_ERROR
    except Terminated:
        return report_interruption(signal.SIGTERM)


def report_system_error(error: OSError) -> int:
    """Print an error of the operating system in one line."""
    where = f"{visible(str(error.filename))}: " if error.filename else ""
    complain(f"{where}{error.strerror or error}; check the path, its permissions and the disk")
    return USER_ERROR


def complain(reason: str) -> None:
    """Print the reason why the command ends to standard error.

    Control characters in `reason` are escaped or removed.
    """
    print(f"rnnlm: {terminal_text(reason)}", file=sys.stderr)


def check_open_files() -> None:
    """Exit with an error message if the limit of open files is too low for a server and for training."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FEWEST_FILES:
        complain(too_few_files())
        sys.exit(USER_ERROR)


def check_current_folder() -> None:
    """Exit with an error message if the current folder was deleted, because libraries would raise unclear errors."""
    try:
        Path.cwd()
    except OSError as error:
        complain(f"the current folder cannot be read ({error.strerror}); change to another folder (cd)")
        sys.exit(USER_ERROR)


def flushed(code: int) -> int:
    """Flush the standard streams, and return the exit code.

    If the output cannot be written, return USER_ERROR instead of 0.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        complain(f"standard output: {error.strerror}")
        code = code or USER_ERROR
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return code


def fill_standard_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed, and set its handling of invalid characters.

    Without this, another file would get the descriptor of a closed stream. Input bytes that are not valid text are read
    as lone surrogates, which every tokenizer replaces by U+FFFD. Characters that the output's encoding lacks are
    written as escapes.
    """
    closed = [number for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream is None]
    for number in closed:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        # Child processes do not inherit the files that Python opens, but each of them needs standard streams.
        os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: PTH123, SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if 1 in closed:
        complain("standard output is closed, so what this command prints is lost")


def build_group() -> TyperGroup:
    """Build the group of all commands."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def report_wrong_call(error: typer.TyperException) -> int:
    """Print one line about wrong arguments. For a call without arguments, Typer has already printed the help."""
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    for pattern, plain in PLAIN_WORDS.items():
        message = re.sub(pattern, plain, message)
    if not message:  # The command was called without arguments, so there is no message.
        return 0
    path = context.command_path if context is not None else "rnnlm"
    if wrong := re.match(r"No such command '([^']*)'", message):
        names: Iterable[str] = commands()
        if context is not None and isinstance(context.command, TyperGroup):
            names = context.command.list_commands(context)
        near = difflib.get_close_matches(wrong[1], names, n=1)
        message = wrong[0] + (f"; did you mean {path} {near[0]}?" if near else "")
    complain(f"{message[:1].lower()}{message[1:]}; see {path} --help")
    return USER_ERROR


def report_interruption(number: int) -> int:
    """Print that the command was interrupted, and return the exit code for the signal."""
    complain("interrupted; the same command resumes")
    return 128 + number


class Terminated(BaseException):  # noqa: N818  not an error, like KeyboardInterrupt
    """The exception that SIGTERM raises in the main thread, so that the program can clean up before it ends."""


@contextlib.contextmanager
def sigterm_raises() -> Iterator[None]:
    """Raise Terminated on SIGTERM in the block, as Ctrl-C raises KeyboardInterrupt.

    Inside the block, Prefect, training and uvicorn install their own signal handlers.
    """
    # SIGTERM is not handled here, because only the main thread may set signal handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def console_entry() -> NoReturn:
    """Run the command. This is the entry point of the installed `rnnlm` script."""
    # Files are not writable by other users, because later commands load files of the rnnlm home and may execute their
    # code.
    os.umask(os.umask(0o022) | 0o022)
    collect_rarely()
    fill_standard_streams()
    check_open_files()
    check_current_folder()
    code = main()
    # The exit functions, one of which stops the temporary server, run here, and the process then exits without a
    # teardown. In a teardown, Prefect's threads would keep DuckDB's types alive, which nanobind reports in fifty lines.
    # CPython (3.11 to 3.14) has no public function that runs exit functions.
    atexit._run_exitfuncs()
    os._exit(flushed(code))


if __name__ == "__main__":
    console_entry()
