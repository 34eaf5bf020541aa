"""corpora, tokenize, describe, ngram: look at text and datasets, and measure a count-based baseline."""

import argparse
import sys
from typing import TYPE_CHECKING

from flows.commands.parser import (
    CORPUS,
    Commands,
    PrintResult,
    add_command,
    add_config_options,
    add_set_option,
    config_from,
    corpus_config,
    show_warnings,
)
from rnnlm.errors import ConfigError
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.home import Home

if TYPE_CHECKING:
    from rnnlm.evaluation.ngram.ngram_evaluation import NgramResult

CATALOGUE_FIELDS = ("name", "location", "licence", "format", "splits", "size", "advice")
CATALOGUE_WIDTHS = {"name": 16, "format": 31, "splits": 36, "size": 0}  # with the lines below, 120 columns at most
# By default n-grams keep every word of the training split and cut no sentence.
UNCUT_TEXT = ("tokenizer.vocabulary_size=1000000", "sequences.context_length=65536")


def add_data_commands(commands: Commands) -> None:
    add_command(commands, "corpora", corpora_command)

    tokenize = add_command(commands, "tokenize", tokenize_command)
    tokenize.add_argument("source", metavar="SOURCE", help="tokenizer to use: a dataset's id or folder, or a MODEL")
    tokenize.add_argument("--text", help="default: standard input")
    tokenize.add_argument("--show", action="store_true", help="show colored pieces instead of ids")

    describe = add_command(commands, "describe", describe_command)
    describe.add_argument("dataset", metavar="DATASET", help="a dataset's id or folder, as rnnlm prepare prints it")

    ngram = add_command(commands, "ngram", ngram_command)
    ngram.add_argument("--corpus", required=True, help=CORPUS)
    add_set_option(ngram)
    add_config_options(ngram, "ngram", NgramConfig, "method", "order", "samples", "seed", "memory_limit", "threads")


def corpora_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """List the corpora known by name.

    rnnlm corpora
    """
    from rnnlm.corpora.catalogue import CATALOGUE

    rows = [{field: getattr(entry, field) for field in CATALOGUE_FIELDS} for entry in CATALOGUE.values()]
    lines = [catalogue_line({field: field for field in CATALOGUE_WIDTHS})]
    for row in rows:
        details = (row["location"], f"licence: {row['licence']}", row["advice"])
        lines += [catalogue_line(row), *(" " * (CATALOGUE_WIDTHS["name"] + 1) + text for text in details if text)]
    print_result("\n".join(lines), rows)


def catalogue_line(row: dict[str, str]) -> str:
    return " ".join(row[field].ljust(width) for field, width in CATALOGUE_WIDTHS.items())


def tokenize_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Print a text's token ids, one line per line of text.

    rnnlm tokenize models:/rnnlm-python-docs@champion --text 'a list' --show
    """
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
    print_result("\n".join(shown), value[0] if len(value) == 1 else value)


def describe_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Report a dataset's sizes, lengths, duplicates and leakage.

    rnnlm describe 5d41402a
    """
    from rnnlm.reports.dataset_page import description_text
    from rnnlm.sequences.dataset_lookup import find_dataset
    from rnnlm.sequences.dataset_report import describe_dataset

    dataset = find_dataset(home, options.dataset)
    if dataset is None:
        raise ConfigError(f"{options.dataset}: no dataset has this id or folder; rnnlm prepare prints one")
    description, pictures = describe_dataset(home, dataset)
    value = description.model_dump(mode="json") | {"pictures": [str(path) for path in pictures]}
    print_result(description_text(description, pictures), value)


def ngram_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Measure the perplexity of a count-based model on a corpus.

    rnnlm ngram --corpus python-docs --order 5 --samples 2
    """
    show_warnings()
    config = config_from(options, "ngram", NgramConfig)
    pipeline = corpus_config(options, *UNCUT_TEXT)
    from rnnlm.evaluation.ngram.ngram_evaluation import measure_ngram

    result = measure_ngram(home, pipeline, config)
    print_result(ngram_text(result), result.model_dump(mode="json"))


def ngram_text(result: "NgramResult") -> str:
    """A one-row table, a warning if its figure is no perplexity, and the samples."""
    from rnnlm.text_layout import columns

    figures = {"test ppl" if result.normalised else "test figure": f"{result.test_perplexity:.2f}"}
    if result.validation_perplexity is not None:
        figures["valid ppl"] = f"{result.validation_perplexity:.2f}"
    row = {
        "model": f"{result.order}-gram, {result.method}",
        **figures,
        "tokens": f"{result.tokens:,}",
        "unknown": f"{result.unknown_rate:.2%}",
        "seconds": f"{result.seconds:.1f}",
    }
    note = [] if result.normalised else ["not a normalised distribution: not comparable with perplexities"]
    samples = [line for sample in result.samples for line in ("", sample.text)]
    return "\n".join([*columns([row]), *note, *samples])
