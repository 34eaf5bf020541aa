"""The `rnnlm` command: parse the arguments, run a command of flows/commands, report errors in at most three lines."""

import atexit
import contextlib
import difflib
import importlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from rnnlm.errors import RnnlmError, TrackingError

USER_ERROR = 2
OPENING = "Train, evaluate, register and serve recurrent language models."
PLAIN_WORDS = {  # for what pydantic says of a number
    r"Input should be a valid integer\b.*": "expected a whole number",
    r"Input should be greater than or equal to ": "expected at least ",
}
EXAMPLE = "example: rnnlm run --preset smoke --corpus my-text.txt"
COMMANDS = {  # heading → command → (module of flows/commands, first sentence of its help)
    "Pipeline": {
        "run": ("pipeline", "Run the whole pipeline, from corpus to registered model."),
        "prepare": ("pipeline", "Prepare a corpus: download, train the tokenizer, store sequences."),
        "train": ("pipeline", "Train, evaluate and register a model on the prepared corpus."),
        "settings": ("settings", "List the settings with type, bounds, default and description."),
    },
    "Models": {
        "generate": ("models", "Generate text with a model."),
        "serve": ("models", "Serve a model over HTTP, with a page to try it."),
        "models": ("models", "List the registered models, newest first, or show one of them."),
        "promote": ("models", "Make a version champion by hand, overriding the evidence."),
        "rollback": ("models", "Make the previous champion champion again."),
        "export": ("models", "Export a model to a file: its network to ONNX (extra: onnx), or its counts to ARPA."),
    },
    "Measure": {
        "runs": ("runs", "List the training runs, the last one first."),
        "compare": ("comparison", "Compare kinds of models on the same tokens, or registered models on a text."),
        "evaluate": ("evaluation", "Measure a model's perplexity on a corpus."),
        "explain": ("evaluation", "Show how a model reads a text: tokens, probabilities, loss and state."),
        "surprise": ("evaluation", "Show where a model's loss is high: sentence, position, frequency."),
        "score": ("scoring", "Score many texts, to filter or rank them or detect drift."),
        "filter": ("scoring", "Keep or drop texts by their scores."),
        "pairs": ("scoring", "Measure how often a model prefers the good sentence of a minimal pair."),
        "rescore": ("scoring", "Choose the best text of each n-best list, with a model's help."),
        "lm-eval": ("evaluation", "Run EleutherAI's evaluation harness on a model (extra: lm-eval)."),
        "ngram": ("data", "Measure the perplexity of a count-based model on a corpus."),
        "probe": ("probes", "Run a small experiment on gradients, memory or learning."),
    },
    "Text": {
        "corpora": ("data", "List the corpora known by name."),
        "inspect": ("data", "Show what would be read from a file, folder or glob, and what left out."),
        "describe": ("data", "Report a dataset's sizes, lengths, duplicates and leakage."),
        "tokenize": ("data", "Print a text's token ids, one line per line of text."),
    },
    "Every night": {
        "up": ("service", "Start everything that nightly runs need: Prefect, MLflow, a worker and the deployments."),
        "down": ("service", "Stop what rnnlm up has started. Training writes a checkpoint first."),
        "status": (
            "service",
            "Show what runs and how far it is, last and next runs, failed checks, champions, disk use and errors.",
        ),
        "logs": (
            "service",
            "Print the logs of rnnlm up, of the servers and of the worker, whose log has the flow runs.",
        ),
        "schedule": (
            "schedules",
            "Run the pipeline on your own text on a schedule; the same name changes an existing one.",
        ),
        "schedules": ("schedules", "List what runs on a schedule: corpus, time, next and last run."),
        "unschedule": ("schedules", "Delete a schedule of your own, or pause one that comes with rnnlm."),
        "trigger": ("schedules", "Start a deployment's run now."),
        "notify": ("notifications", "Send what people should hear of to a webhook, Slack or an e-mail address."),
    },
    "Servers": {
        "deploy": ("service", "Create the deployments of prefect.yaml on a Prefect server."),
        "env": ("service", "Print variables for servers and workers that are started by hand."),
        "prune": ("upkeep", "Remove what nobody needs any more."),
        "backup": ("upkeep", "Back up registry, metrics, registered models and corpora."),
        "restore": ("upkeep", "Restore a backup into an empty home."),
        "join": ("pipeline", "Train as another node of a run started with training.distributed.rendezvous."),
    },
}


class LazyGroup(TyperGroup):
    """Imports a command's module when the command is called: `rnnlm --help` needs none of them."""

    def list_commands(self, context: Any) -> list[str]:
        return [name for panel in COMMANDS.values() for name in panel]

    def get_command(self, context: Any, name: str) -> Any:
        for panel, rows in COMMANDS.items():
            if name in rows:
                if name not in self.commands:
                    self.commands[name] = load_command(rows[name][0], name, panel)
                return self.commands[name]
        return None

    def format_help(self, context: Any, formatter: Any) -> None:
        """The overview, from the table above alone."""
        overview = TyperGroup(name=self.name, params=self.params, help=self.help, epilog=self.epilog)
        overview.rich_markup_mode = self.rich_markup_mode
        for panel, rows in COMMANDS.items():
            for name, (_, sentence) in rows.items():
                overview.add_command(TyperCommand(name=name, help=sentence, rich_help_panel=panel))
        overview.format_help(context, formatter)


def load_command(module: str, name: str, panel: str) -> Any:
    """The command as its module defines it."""
    command: Any = typer.main.get_group(importlib.import_module(f"flows.commands.{module}").APP).commands[name]
    command.rich_help_panel = panel
    return command


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
    """The options before the command."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0, 2 after a user error, or 128 + the signal's number after an interruption."""
    try:
        with sigterm_raises():
            code = build_group().main(arguments, prog_name="rnnlm", standalone_mode=False) or 0
            # Typer turns a KeyboardInterrupt into this code.
            return report_interruption(signal.SIGINT) if code == 128 + signal.SIGINT else int(code)
    except typer.TyperException as error:
        return report_wrong_call(error)
    except (RnnlmError, TrackingError) as error:
        print(f"rnnlm: {error}", file=sys.stderr)
        return USER_ERROR
    except OSError as error:  # a disk, a path or a pipe without a better message of its own
        return report_system_error(error)
    except Terminated:
        return report_interruption(signal.SIGTERM)


def report_system_error(error: OSError) -> int:
    """Print what the system refused, in one line."""
    where = f"{ascii(str(error.filename))[1:-1]}: " if error.filename else ""
    print(f"rnnlm: {where}{error.strerror or error}; check the path, its permissions and the disk", file=sys.stderr)
    return USER_ERROR


def fill_standard_streams() -> None:
    """Open /dev/null for standard streams that the caller has closed: else the next file would be in their place."""
    closed = [number for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream is None]
    for number in closed:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: PTH123, SIM115
    if 1 in closed:
        print("rnnlm: standard output is closed, so what this command prints is lost", file=sys.stderr)


def build_group() -> TyperGroup:
    """The group of all commands."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def report_wrong_call(error: typer.TyperException) -> int:
    """Print what is wrong with the arguments in one line; without arguments, the help."""
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    for pattern, plain in PLAIN_WORDS.items():
        message = re.sub(pattern, plain, message)
    if not message:  # called without arguments: Typer has printed the help
        return 0
    if wrong := re.match(r"No such command '([^']*)'", message):
        near = difflib.get_close_matches(wrong[1], [name for rows in COMMANDS.values() for name in rows], n=1)
        message = wrong[0] + (f"; did you mean rnnlm {near[0]}?" if near else "")
    path = context.command_path if context is not None else "rnnlm"
    print(f"rnnlm: {message[:1].lower()}{message[1:]}; see {path} --help", file=sys.stderr)
    return USER_ERROR


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
    fill_standard_streams()
    code = main()
    # Prefect's threads outlive the interpreter's teardown and keep DuckDB's types alive, which nanobind would report
    # in fifty lines. So run the exit functions (one stops the temporary server) and leave without a teardown.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    console_entry()
