"""How a command enters the parser."""

import argparse
from collections.abc import Callable
from typing import Any

from rnnlm.config import STAGES, PipelineConfig
from rnnlm.home import Home
from rnnlm.presets import build_config, read_presets

Say = Callable[[str, Any], None]  # (text for people, value for programs)
Command = Callable[[argparse.Namespace, Home, Say], None]
Commands = Any  # argparse's subparsers: their class is private
MODEL = "a run folder, a run id, or models:/NAME@champion"
CORPUS = "a catalogue name (rnnlm corpora), hf:OWNER/NAME[:CONFIG], a file, folder or glob, or an http(s) URL"


def add(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    sub: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    sub.set_defaults(command=command)
    sub.add_argument("--json", action="store_true", help="one JSON value on standard output")
    return sub


def add_configuration(sub: argparse.ArgumentParser) -> None:
    """The options that make a PipelineConfig."""
    sub.add_argument("--corpus", help=CORPUS)
    presets = ", ".join(read_presets())
    sub.add_argument("--preset", default="default", help=f"settings to start from: {presets} (see prefect.yaml)")
    sub.add_argument(
        "--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="change one setting; repeatable"
    )
    sub.add_argument(
        "--force",
        action="append",
        default=[],
        metavar="STAGE",
        choices=STAGES,
        help=f"run again: {', '.join(STAGES)}",
    )


def config_of(options: argparse.Namespace) -> PipelineConfig:
    """The configuration, refused here if its corpus cannot be right: before a server is started for it."""
    config = build_config(options.preset, options.set, options.corpus, options.force)
    from rnnlm.corpora.download import check_source

    check_source(config.corpus)
    return config
