"""corpora: what text is known by name."""

import argparse

from flows.commands.parser import Commands, Say, add
from rnnlm.home import Home

FIELDS = ("name", "location", "licence", "format", "splits", "size", "advice")
WIDTHS = {"name": 16, "format": 31, "splits": 36, "size": 0}  # 120 columns at most, with the parts below


def add_commands(commands: Commands) -> None:
    add(commands, "corpora", corpora, "the corpora that are known by name; any file, URL or hf: name will do as well")


def corpora(options: argparse.Namespace, home: Home, say: Say) -> None:
    from rnnlm.corpora.catalogue import CATALOGUE

    rows = [{field: getattr(entry, field) for field in FIELDS} for entry in CATALOGUE.values()]
    lines = [line({field: field for field in WIDTHS})]
    for row in rows:
        below = (row["location"], f"licence: {row['licence']}", row["advice"])
        lines += [line(row), *(" " * (WIDTHS["name"] + 1) + text for text in below if text)]
    say("\n".join(lines), rows)


def line(row: dict[str, str]) -> str:
    return " ".join(row[field].ljust(width) for field, width in WIDTHS.items())
