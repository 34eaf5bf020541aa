"""Inspect text and datasets with `rnnlm corpora`, `inspect`, `tokenize` and `describe`."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.command import ReadingSession, Session
from flows.commands.options import Set, complete_models
from rnnlm.config.presets import build_config
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.display.text_layout import labelled
from rnnlm.errors import ConfigError
from rnnlm.registry.model_lookup import model_folder
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.tokenizers.token_colors import coloured

if TYPE_CHECKING:
    pass

HEADING = "Text"
CATALOGUE_FIELDS = ("name", "location", "licence", "format", "splits", "size", "advice")


def corpora_command(session: ReadingSession) -> None:
    """List the corpora known by name.

    rnnlm corpora
    """
    rows = [{field: getattr(entry, field) for field in CATALOGUE_FIELDS} for entry in CATALOGUE.values()]
    blocks = [
        "\n".join([row["name"], *(labelled(f"  {field}", row[field]) for field in CATALOGUE_FIELDS[1:] if row[field])])
        for row in rows
    ]
    session.print_result("\n\n".join(blocks), rows)


def inspect_command(
    session: ReadingSession,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="File, folder or glob to inspect.")],
    set: Set = None,
) -> None:
    """Show what would be read from a file, folder or glob, and what would be left out.

    Nothing is stored. Of a text, only the first 32 MiB are read. The exit code is 2 if a run would end with an error.

    rnnlm inspect folder/
    rnnlm inspect 'data/**/*.md' --json
    """
    from rnnlm.corpora.inspection import inspect_source
    from rnnlm.reports.inspection_page import inspection_text

    found = inspect_source(build_config("default", set or (), source))
    session.print_result(inspection_text(found), found)
    if found.refusal is not None:
        raise typer.Exit(2)


def tokenize_command(
    session: Session,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="Model whose tokenizer is used, as in rnnlm generate, or a dataset's id or folder. Default: the "
            "champion of the only registered model.",
            autocompletion=complete_models,
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="Text to tokenize. Default: standard input.")] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--show",
            help="Show the tokens' text instead of their ids, in colors on a terminal, else with | between tokens. Ġ "
            "is a space.",
        ),
    ] = False,
) -> None:
    """Print a text's token ids, one line per line of text.

    rnnlm tokenize --text 'a list' --show
    """
    dataset = find_dataset(session.home, source) if source else None
    tokenizer = load_tokenizer(dataset.tokenizer_folder if dataset else model_folder(session.home, source))
    text = sys.stdin.read() if text is None else text
    lines = text.removesuffix("\n").split("\n")
    rows = [tokenizer.encode(line) for line in lines]
    in_colour = session.out.isatty() and "NO_COLOR" not in os.environ
    if show and in_colour and not session.json:
        session.print_line("\n".join(coloured(tokenizer, line) for line in lines))
        return
    shown = ["|".join(tokenizer.pieces(ids)) if show else " ".join(map(str, ids)) for ids in rows]
    value = [{"ids": ids, "pieces": tokenizer.pieces(ids)} for ids in rows]
    session.print_result("\n".join(shown), value[0] if len(value) == 1 else value)


def describe_command(
    session: ReadingSession,
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="Id or folder of a dataset, as rnnlm prepare prints it.")
    ],
) -> None:
    """Report a dataset's sizes, lengths, duplicates and leakage.

    rnnlm describe 5d41402a
    """
    from rnnlm.reports.dataset_page import description_page
    from rnnlm.sequences.dataset_report import describe_dataset

    record = find_dataset(session.home, dataset)
    if record is None:
        raise ConfigError(f"{dataset}: no dataset has this id or folder; rnnlm prepare prints the id")
    description, pictures = describe_dataset(session.home, record)
    value = description.model_dump(mode="json") | {"pictures": [str(path) for path in pictures]}
    session.print_result(description_page(description, pictures).text(), value)
