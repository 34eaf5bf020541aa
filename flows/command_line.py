"""The `rnnlm` command: parse the arguments, run a command of flows/commands, report errors in at most three lines."""

import argparse
import atexit
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

from flows.commands.data import add_data_commands
from flows.commands.evaluation import add_evaluation_commands
from flows.commands.models import add_model_commands
from flows.commands.parser import PrintResult
from flows.commands.pipeline import add_pipeline_commands
from flows.commands.probes import add_probe_commands
from flows.operations.prefect_environment import set_environment
from rnnlm.disk_errors import full_disk_explained
from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.home import find_home

USER_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0, 2 after a user error, or 128 + the signal's number after an interruption."""
    options = build_parser().parse_args(arguments)
    try:
        home = find_home()
        set_environment(home)
        with (
            sigterm_raises(),
            only_results_on_stdout(options.json) as print_result,
            full_disk_explained(home.root),
        ):
            options.command(options, home, print_result)
    except (RnnlmError, TrackingError) as error:
        print(f"rnnlm: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        return report_interruption(signal.SIGINT)
    except Terminated:
        return report_interruption(signal.SIGTERM)
    return 0


def report_interruption(number: int) -> int:
    """Print one line. Returns the exit code of a program ended by the signal."""
    print("rnnlm: interrupted; the same command resumes", file=sys.stderr)
    return 128 + number


class Terminated(BaseException):  # noqa: N818  not an error, like KeyboardInterrupt
    """SIGTERM, raised in the main thread."""


@contextlib.contextmanager
def sigterm_raises() -> Iterator[None]:
    """Make SIGTERM end the block as Ctrl-C does. Prefect, training and uvicorn install their own handlers inside."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
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
    """Entry point of the installed `rnnlm` script."""
    code = main()
    # Prefect's threads outlive the interpreter's teardown and keep DuckDB's types alive, which nanobind would report
    # in fifty lines. So run the exit functions (one stops the temporary server) and leave without a teardown.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def only_results_on_stdout(as_json: bool) -> Iterator[PrintResult]:
    """Send everything that libraries print to standard error; the yielded function prints to standard output."""
    out = sys.stdout

    def print_result(text: str, value: Any) -> None:
        print(json.dumps(value) if as_json else text, file=out, flush=True)

    with contextlib.redirect_stdout(sys.stderr):
        yield print_result


class OneLineParser(argparse.ArgumentParser):
    """Reports a wrong call in one line instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USER_ERROR, f"rnnlm: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command, in the order of --help."""
    parser = OneLineParser(
        prog="rnnlm",
        description="Train, evaluate, register and serve recurrent language models.",
        epilog="example:\n  rnnlm run --preset smoke --corpus my-text.txt",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    add_pipeline_commands(commands)
    add_data_commands(commands)
    add_evaluation_commands(commands)
    add_model_commands(commands)
    add_probe_commands(commands)
    return parser


if __name__ == "__main__":
    console_entry()
