"""probe gradients, probe echo: what recurrent networks of each kind can learn over how long a time."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from flows.commands.adding import CORPUS, Commands, Say, add
from flows.commands.models import listen
from rnnlm.config import Nonlinearity, RecurrentInitialization
from rnnlm.home import Home, atomic_file, digest_of
from rnnlm.presets import build_config, validate_section
from rnnlm.probes.config import EchoConfig, GradientProbeConfig

if TYPE_CHECKING:
    from rnnlm.probes.comparing import GradientCurve
    from rnnlm.probes.echo import EchoScore

SHOWN_DISTANCES = (1, 10, 50)
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
    """An option for each field, with the field's default and the type of that."""
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
    listen()
    config = validate_section("probe", GradientProbeConfig, values_of(options, GradientProbeConfig))
    pipeline = build_config("default", [*RUNNING_TEXT, *options.set], options.corpus)
    from rnnlm.corpora.sources import check_source
    from rnnlm.probes.comparing import compare_gradients
    from rnnlm.probes.pictures import draw_gradient_comparison
    from rnnlm.reports.layout import columns

    check_source(pipeline.corpus)
    curves = compare_gradients(
        home, pipeline, config, told=lambda curve: print(".", end="", file=sys.stderr, flush=True)
    )
    picture = picture_path(home, "gradients", [config.model_dump(), pipeline.model_dump(mode="json")])
    with atomic_file(picture) as partial:
        draw_gradient_comparison(curves, partial)
    value = {"curves": [curve.model_dump() for curve in curves], "picture": str(picture)}
    say("\n".join([*columns([gradient_row(curve) for curve in curves]), "", f"picture  {picture}"]), value)


def gradient_row(curve: "GradientCurve") -> dict[str, Any]:
    """Of the top layer: the norm at the loss's own step, and what is left of it further back."""
    relative = curve.relative
    left = {
        f"{distance} back": f"{relative[distance]:.2e}" if distance < len(relative) else "-"
        for distance in dict.fromkeys((*SHOWN_DISTANCES, len(relative) - 1))
    }
    steps = {"network": f"{curve.nonlinearity}, {curve.start}", "steps": curve.trained_steps}
    return {**steps, "norm": f"{curve.norms[-1][0]:.2e}", **left}


def echo(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    config = validate_section("probe", EchoConfig, values_of(options, EchoConfig))
    from rnnlm.probes.echo import measure_echo
    from rnnlm.probes.pictures import draw_echo
    from rnnlm.reports.layout import columns

    scores = measure_echo(config, told=lambda score: print(".", end="", file=sys.stderr, flush=True))
    picture = picture_path(home, "echo", config.model_dump())
    with atomic_file(picture) as partial:
        draw_echo(scores, config.symbols, partial)
    lines = [*columns(echo_table(scores)), f"guessing gives {1 / config.symbols:.1%}", "", f"picture  {picture}"]
    say("\n".join(lines), {"scores": [score.model_dump() for score in scores], "picture": str(picture)})


def echo_table(scores: Sequence["EchoScore"]) -> list[dict[str, Any]]:
    """A row a network, a column a distance: the share right at the cue."""
    rows: dict[str, dict[str, Any]] = {}
    for score in scores:
        name = f"{score.nonlinearity}, {score.initialization}"
        rows.setdefault(name, {"network": name})[f"{score.distance} back"] = f"{score.accuracy:.0%}"
    return list(rows.values())


def picture_path(home: Home, name: str, settings: Any) -> Path:
    """Where the picture of a probe with these settings lies."""
    home.make(home.probes)
    return home.probes / f"{name}-{digest_of(settings)[:8]}.png"
