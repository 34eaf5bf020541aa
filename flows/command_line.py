"""The `rnnlm` command: parses, runs one of flows/commands, prints. Thin on purpose.

Heavy imports wait until a command needs them: the environment must be set before Prefect is imported,
and `rnnlm --help` should not take seconds.
"""

import argparse
import atexit
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from flows.commands import (
    corpora,
    data,
    elsewhere,
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
from flows.commands.adding import Say
from flows.operations.environment import set_environment
from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.home import find_home, full_disk_explained

USER_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0, or 2 after a user's mistake, told in at most three lines."""
    options = build_parser().parse_args(arguments)
    try:
        home = find_home()
        set_environment(home)
        with results_alone_on_stdout(options.json) as say, full_disk_explained(home):
            options.command(options, home, say)
    except (RnnlmError, TrackingError) as error:
        print(f"rnnlm: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print("rnnlm: interrupted", file=sys.stderr)
        return 130
    return 0


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
    groups = (pipeline, corpora, data, ngram, models, registry, surprise, scoring, serving, elsewhere, probes, servers)
    for group in groups:
        group.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
