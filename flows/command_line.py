"""The `rnnlm` command: parses, runs one of flows/commands, prints. Thin on purpose.

Heavy imports wait until a command needs them: the environment must be set before Prefect is imported,
and `rnnlm --help` should not take seconds.
"""

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

from flows.commands import (
    corpora,
    data,
    export,
    models,
    ngram,
    pipeline,
    probes,
    registry,
    scoring,
    servers,
    serving,
    surprise,
)
from flows.commands.parser import Say
from flows.operations.prefect_environment import set_environment
from rnnlm.disk_errors import full_disk_explained
from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.home import find_home

USER_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0, 2 after a user's mistake, told in at most three lines, or 128 + a signal's number."""
    options = build_parser().parse_args(arguments)
    try:
        home = find_home()
        set_environment(home)
        with sigterm_raises(), results_alone_on_stdout(options.json) as say, full_disk_explained(home.root):
            options.command(options, home, say)
    except (RnnlmError, TrackingError) as error:
        print(f"rnnlm: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        return tell_interrupted(signal.SIGINT)
    except Terminated:
        return tell_interrupted(signal.SIGTERM)
    return 0


def tell_interrupted(number: int) -> int:
    """One line for the user. Returns the exit code of a program that a signal ended."""
    print("rnnlm: interrupted; the same command resumes", file=sys.stderr)
    return 128 + number


class Terminated(BaseException):  # noqa: N818  no error: like KeyboardInterrupt
    """SIGTERM, as an exception of the main thread."""


@contextlib.contextmanager
def sigterm_raises() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does. Prefect, training and uvicorn handle it first while they run."""
    if threading.current_thread() is not threading.main_thread():  # no other may set handlers
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
    """What the installed `rnnlm` script calls."""
    code = main()
    # Prefect's threads outlive the interpreter's teardown and keep DuckDB's types alive, of which nanobind
    # then complains in fifty lines. So: the exit functions (one stops the temporary server), then the end.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def results_alone_on_stdout(as_json: bool) -> Iterator[Say]:
    """Only the result reaches standard output; whatever libraries print goes to standard error."""
    out = sys.stdout

    def say(text: str, value: Any) -> None:
        print(json.dumps(value) if as_json else text, file=out, flush=True)

    with contextlib.redirect_stdout(sys.stderr):
        yield say


class OneLineParser(argparse.ArgumentParser):
    """A wrong call is told in one line, not in a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USER_ERROR, f"rnnlm: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="rnnlm", description="Text in, registered recurrent language model out.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    groups = (pipeline, corpora, data, ngram, models, registry, surprise, scoring, serving, export, probes, servers)
    for group in groups:
        group.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
