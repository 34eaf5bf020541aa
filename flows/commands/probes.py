"""probe gradients, probe echo: what recurrent networks of each kind can learn over how long a time."""

import argparse
from typing import Any, get_args

from pydantic import BaseModel

from flows.commands.parser import CORPUS, Commands, Say, add
from rnnlm.config import Nonlinearity, RecurrentInitialization
from rnnlm.home import Home
from rnnlm.presets import build_config, validate_section
from rnnlm.probes.probe_config import EchoConfig, GradientProbeConfig

RUNNING_TEXT = ("sequences.mode=stream",)  # sentences are too short to look far back in


def add_commands(commands: Commands) -> None:
    text = "small experiments on gradients and memory, each with a table and a picture"
    probes = commands.add_parser("probe", help=text, description=text).add_subparsers(required=True, metavar="PROBE")

    sub = add(probes, "gradients", gradients, "how far back gradients reach: tanh and relu, each initialisation")
    sub.add_argument("--corpus", help=f"{CORPUS}; default: python-docs")
    sub.add_argument(
        "--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="how the text is cut; repeatable"
    )
    add_fields(
        sub,
        GradientProbeConfig,
        hidden_size=("hidden", "units a layer"),
        layers=("layers", "of the network"),
        steps=("steps", "back from the loss at most"),
        rows=("rows", "windows of validation text"),
        factor=("factor", "of the scaled identity"),
        trained_steps=("trained-steps", "steps before a second measurement; 0: none"),
        learning_rate=("learning-rate", "of these steps"),
        seed=("seed", "of weights and batches"),
    )

    sub = add(probes, "echo", echo, "how long a symbol is remembered: tanh and relu, each initialisation")
    sub.add_argument("--distances", type=int, nargs="+", help="steps between symbol and cue; default: 1 2 5 10 20 40")
    sub.add_argument(
        "--nonlinearity", dest="nonlinearities", nargs="+", choices=get_args(Nonlinearity), help="default: all"
    )
    sub.add_argument(
        "--initialization",
        dest="initializations",
        nargs="+",
        choices=get_args(RecurrentInitialization),
        help="default: all",
    )
    add_fields(
        sub,
        EchoConfig,
        symbols=("symbols", "to tell apart"),
        hidden_size=("hidden", "units"),
        training_steps=("training-steps", "of each small model"),
        learning_rate=("learning-rate", "of these steps"),
        seed=("seed", "of weights and rows"),
    )


def add_fields(sub: argparse.ArgumentParser, model: type[BaseModel], **options: tuple[str, str]) -> None:
    """An option for each field, with the field's default and the type of that; and --force."""
    sub.add_argument("--force", action="store_true", help="measure again although the figures are there")
    for field, (option, text) in options.items():
        default = model.model_fields[field].default
        sub.add_argument(
            f"--{option}", dest=field, type=type(default), default=default, help=f"{text}; default: {default}"
        )


def values_of(options: argparse.Namespace, model: type[BaseModel]) -> dict[str, Any]:
    """What was given; the rest keeps the fields' defaults."""
    given = {field: getattr(options, field, None) for field in model.model_fields}
    return {field: value for field, value in given.items() if value is not None}


def gradients(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = validate_section("probe", GradientProbeConfig, values_of(options, GradientProbeConfig))
    pipeline = build_config("default", [*RUNNING_TEXT, *options.set], options.corpus)
    from rnnlm.corpora.download import check_source

    check_source(pipeline.corpus)
    from flows.operations.flow_runner import run_flow
    from flows.probe_gradients_flow import probe_gradients_flow
    from rnnlm.reports.probe_page import gradients_text

    found = run_flow(home, lambda config: probe_gradients_flow(config, pipeline, options.force), config)
    value = {"curves": [curve.model_dump() for curve in found.curves], "picture": str(found.picture)}
    say(gradients_text(found), value)


def echo(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = validate_section("probe", EchoConfig, values_of(options, EchoConfig))
    from flows.operations.flow_runner import run_flow
    from flows.probe_echo_flow import probe_echo_flow
    from rnnlm.reports.probe_page import echo_text

    found = run_flow(home, lambda config: probe_echo_flow(config, force=options.force), config)
    value = {"scores": [score.model_dump() for score in found.scores], "picture": str(found.picture)}
    say(echo_text(found), value)
