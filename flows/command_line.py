"""The `rnnlm` command: parses, calls a flow or the library, prints. Thin on purpose.

Heavy imports wait until a command needs them: the environment must be set before Prefect is imported,
and `rnnlm --help` should not take seconds.
"""

import argparse
import atexit
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from flows.operations.environment import set_environment
from rnnlm.config import STAGES, CorpusConfig, GenerationConfig, PipelineConfig
from rnnlm.errors import ConfigError, RnnlmError, TrackingError
from rnnlm.home import Home, find_home
from rnnlm.presets import build_config, validate_section

USER_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0, or 2 after a user's mistake, told in at most three lines."""
    options = build_parser().parse_args(arguments)
    try:
        home = find_home()
        set_environment(home)
        with results_alone_on_stdout(options.json) as say:
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


Say = Callable[[str, Any], None]  # (text for people, value for programs)


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

    def add(name: str, command: Callable[[argparse.Namespace, Home, Say], None], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        sub.add_argument("--json", action="store_true", help="one JSON object on standard output")
        return sub

    for name, command, text in (
        ("run", run, "the whole pipeline: corpus to registered model"),
        ("prepare", prepare, "corpus, tokenizer and sequences"),
        ("train", train, "train, evaluate and register on the prepared corpus"),
    ):
        sub = add(name, command, text)
        sub.add_argument("--corpus", help="a catalogue name, a file or folder, or an http(s) URL")
        sub.add_argument("--preset", default="default", help="settings to start from: default, smoke")
        sub.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="SECTION.FIELD=VALUE",
            help="change one setting; repeatable",
        )
        sub.add_argument(
            "--force",
            action="append",
            default=[],
            metavar="STAGE",
            choices=STAGES,
            help=f"run again: {', '.join(STAGES)}",
        )

    sub = add("evaluate", evaluate, "perplexity of a model on a corpus")
    sub.add_argument("model", metavar="MODEL", help="a run folder, or models:/NAME@champion")
    sub.add_argument("--corpus", required=True, help="a catalogue name, a file or folder, or an http(s) URL")
    sub.add_argument(
        "--split",
        choices=("train", "valid", "test"),
        help="default: test, or all of a text the model was not trained on",
    )

    sub = add("generate", generate, "text from a model")
    sub.add_argument("model", metavar="MODEL", help="a run folder, or models:/NAME@champion")
    sub.add_argument("--prompt", default="", help="the text to continue")
    for field, type_ in (
        ("maximum-tokens", int),
        ("temperature", float),
        ("top-k", int),
        ("top-p", float),
        ("seed", int),
    ):
        default = GenerationConfig.model_fields[field.replace("-", "_")].default
        sub.add_argument(f"--{field}", type=type_, default=default, help=f"default: {default}")

    add("models", models, "the registered models, newest first")
    sub = add("deploy", deploy, "work pool and deployments of prefect.yaml, on the server at PREFECT_API_URL")
    return parser


def config_of(options: argparse.Namespace) -> PipelineConfig:
    """The configuration, refused here if its corpus cannot be right: before a server is started for it."""
    config = build_config(options.preset, options.set, options.corpus, options.force)
    from rnnlm.corpora.sources import check_source

    check_source(config.corpus)
    return config


def run(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = config_of(options)
    from flows.operations.running import run_flow
    from flows.pipeline_flow import pipeline_flow
    from rnnlm.reports import pipeline_json, pipeline_summary

    record = run_flow(home, pipeline_flow, config)
    say(pipeline_summary(record), pipeline_json(record))


def prepare(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = config_of(options)
    from flows.operations.running import run_flow
    from flows.prepare_flow import prepare_flow

    prepared = run_flow(home, prepare_flow, config)
    say(f"dataset    {prepared.dataset.folder}", prepared.model_dump(mode="json"))


def train(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = config_of(options)
    from flows.operations.running import run_flow
    from flows.train_flow import train_flow
    from rnnlm.reports import columns, score_rows

    trained = run_flow(home, train_flow, config)
    text = "\n".join([f"run        {trained.run.folder}", "", *columns(score_rows(trained.evaluation))])
    say(text, trained.model_dump(mode="json"))


def evaluate(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    from rnnlm.evaluation.foreign import score_corpus
    from rnnlm.registry.lookup import model_folder
    from rnnlm.reports import columns, score_row

    corpus = validate_section("corpus", CorpusConfig, {"source": options.corpus})
    score = score_corpus(home, model_folder(home, options.model), corpus, options.split)
    say("\n".join(columns([score_row(score)])), score.model_dump(mode="json"))


def generate(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    names = ("maximum_tokens", "temperature", "top_k", "top_p", "seed")
    config = validate_section("generation", GenerationConfig, {name: getattr(options, name) for name in names})
    from rnnlm.generation.continuing import continue_prompt
    from rnnlm.models.building import load_model
    from rnnlm.registry.lookup import model_folder
    from rnnlm.tokenizers.face import load_tokenizer

    folder = model_folder(home, options.model)
    sample = continue_prompt(load_model(folder), load_tokenizer(folder), options.prompt, config)
    say(sample.text, {"prompt": sample.prompt, "text": sample.text, "tokens": sample.tokens})


def models(options: argparse.Namespace, home: Home, say: Say) -> None:
    from rnnlm.registry.lookup import list_models
    from rnnlm.reports import columns, model_row

    versions = list_models(home)
    text = "\n".join(columns([model_row(version) for version in versions])) if versions else "no models yet: rnnlm run"
    say(text, [version.model_dump(mode="json") for version in versions])


def deploy(options: argparse.Namespace, home: Home, say: Say) -> None:
    if "PREFECT_API_URL" not in os.environ:
        raise ConfigError(
            "PREFECT_API_URL is not set: start `prefect server start` and give its URL, such as\n"
            "PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    from flows.operations.deploying import deploy_all

    names = deploy_all()
    say("\n".join(f"deployed   {name}" for name in names), names)


def listen() -> None:
    """Commands that run outside Prefect show the library's warnings on standard error."""
    logging.basicConfig(level=logging.WARNING, format="rnnlm: %(message)s", stream=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
