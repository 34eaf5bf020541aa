"""models, models show, promote, rollback: what is registered, where it comes from, and who is champion."""

import argparse
from typing import TYPE_CHECKING

from flows.commands.models import listen
from flows.commands.parser import Commands, Say, add
from rnnlm.home import Home

if TYPE_CHECKING:
    from rnnlm.registry.champion_history import Change

NAME = "the registered model, such as rnnlm-python-docs"
VERSION = "its number, or champion or challenger"


def add_commands(commands: Commands) -> None:
    sub = add(commands, "models", models, "the registered models, newest first; one of them by `models show`")
    sub.add_argument("--best", action="store_true", help="of each model and dataset the lowest validation perplexity")
    sub.add_argument("--dataset", metavar="DATASET", help="those trained on it: its id, the beginning of it, or folder")
    kinds = sub.add_subparsers(metavar="[show]")
    one = add(kinds, "show", show, "one version and all it came from, back to the bytes of the corpus")
    one.add_argument("name", metavar="NAME", help=NAME)
    one.add_argument("version", metavar="VERSION", nargs="?", default="champion", help=f"{VERSION}; default: champion")

    sub = add(commands, "promote", promote, "make a version champion by hand, whatever the evidence; on record")
    sub.add_argument("name", metavar="NAME", help=NAME)
    sub.add_argument("version", metavar="VERSION", help=VERSION)
    sub.add_argument("--reason", default="", help="why: kept with the version")

    sub = add(commands, "rollback", rollback, "make the champion before the present one champion again; on record")
    sub.add_argument("name", metavar="NAME", help=NAME)
    sub.add_argument("--reason", default="", help="why: kept with the version")


def models(options: argparse.Namespace, home: Home, say: Say) -> None:
    from rnnlm.registry.model_lookup import best_versions, list_models, of_dataset
    from rnnlm.reports.registry_page import model_row
    from rnnlm.text_layout import columns

    versions = list_models(home)
    nothing = "no models of that dataset: rnnlm models" if versions and options.dataset else "no models yet: rnnlm run"
    if options.dataset:
        versions = of_dataset(versions, options.dataset)
    if options.best:
        versions = best_versions(versions)
    text = "\n".join(columns([model_row(version) for version in versions])) if versions else nothing
    say(text, [version.model_dump(mode="json") for version in versions])


def show(options: argparse.Namespace, home: Home, say: Say) -> None:
    from rnnlm.registry.lineage import show_version
    from rnnlm.reports.registry_page import lineage_report

    details = show_version(home, options.name, options.version)
    say(lineage_report(details), details.model_dump(mode="json"))


def promote(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    from rnnlm.registry.promotion_commands import promote_by_hand

    tell(promote_by_hand(home, options.name, options.version, options.reason), options.name, say)


def rollback(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    from rnnlm.registry.promotion_commands import roll_back

    tell(roll_back(home, options.name, options.reason), options.name, say)


def tell(change: "Change", name: str, say: Say) -> None:
    from rnnlm.reports.registry_page import change_line

    say(f"{name} version {change.version} is champion: {change_line(change)}", change.model_dump(mode="json"))
