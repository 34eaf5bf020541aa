"""tokenize, describe: a look at the data."""

import argparse
import sys

from flows.commands.parser import Commands, Say, add
from rnnlm.errors import ConfigError
from rnnlm.home import Home


def add_commands(commands: Commands) -> None:
    sub = add(commands, "tokenize", tokenize, "the ids of a text, a line of ids for a line of text")
    sub.add_argument("source", metavar="SOURCE", help="whose tokenizer: a dataset's id or folder, or a MODEL")
    sub.add_argument("--text", help="default: standard input")
    sub.add_argument("--show", action="store_true", help="coloured pieces instead of ids")

    sub = add(commands, "describe", describe, "sizes, lengths, vocabulary, duplicates and leaks of a dataset")
    sub.add_argument("dataset", metavar="DATASET", help="a dataset's id or folder; rnnlm prepare prints it")


def tokenize(options: argparse.Namespace, home: Home, say: Say) -> None:
    from rnnlm.registry.model_lookup import model_folder
    from rnnlm.sequences.dataset_lookup import find_dataset
    from rnnlm.tokenizers.text_tokenizer import load_tokenizer
    from rnnlm.tokenizers.token_colors import coloured

    dataset = find_dataset(home, options.source)
    tokenizer = load_tokenizer(dataset.tokenizer_folder if dataset else model_folder(home, options.source))
    text = sys.stdin.read() if options.text is None else options.text
    lines = text.removesuffix("\n").split("\n")
    rows = [tokenizer.encode(line) for line in lines]
    shown = [
        coloured(tokenizer, line) if options.show else " ".join(map(str, ids))
        for line, ids in zip(lines, rows, strict=True)
    ]
    value = [{"ids": ids, "pieces": tokenizer.pieces(ids)} for ids in rows]
    say("\n".join(shown), value[0] if len(value) == 1 else value)


def describe(options: argparse.Namespace, home: Home, say: Say) -> None:
    from rnnlm.reports.dataset_page import description_text
    from rnnlm.sequences.dataset_lookup import find_dataset
    from rnnlm.sequences.dataset_report import describe_dataset

    dataset = find_dataset(home, options.dataset)
    if dataset is None:
        raise ConfigError(f"{options.dataset}: no dataset of that id or folder; rnnlm prepare prints one")
    description, pictures = describe_dataset(home, dataset)
    value = description.model_dump(mode="json") | {"pictures": [str(path) for path in pictures]}
    say(description_text(description, pictures), value)
