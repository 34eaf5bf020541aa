"""ngram: the count-based model that a recurrent one has to beat."""

import argparse
from typing import TYPE_CHECKING

from flows.commands.models import listen
from flows.commands.parser import CORPUS, Commands, Say, add
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.home import Home
from rnnlm.presets import build_config, validate_section

if TYPE_CHECKING:
    from rnnlm.evaluation.ngram.ngram_evaluation import NgramResult

# Every word of the training split, and no sentence cut, unless the caller says otherwise.
WHOLE = ("tokenizer.vocabulary_size=1000000", "sequences.context_length=65536")
NOT_COMPARABLE = "not a normalised distribution: not comparable with perplexities"
FIELDS = ("method", "order", "samples", "seed", "memory_limit", "threads")


def add_commands(commands: Commands) -> None:
    defaults = {name: field.default for name, field in NgramConfig.model_fields.items()}
    sub = add(commands, "ngram", ngram, "a count-based model on a corpus: its perplexity and samples")
    sub.add_argument("--corpus", required=True, help=CORPUS)
    sub.add_argument(
        "--method", default=defaults["method"], help=f"kneser-ney or textbook; default: {defaults['method']}"
    )
    for name, type_, text in (
        ("order", int, "tokens of the longest n-gram, 1 to 5"),
        ("samples", int, "texts to draw"),
        ("seed", int, "of the samples"),
        ("memory-limit", str, "of DuckDB; what does not fit spills to disk"),
        ("threads", int, "of DuckDB; none given: all cores"),
    ):
        default = defaults[name.replace("-", "_")]
        sub.add_argument(f"--{name}", type=type_, default=default, help=f"{text}; default: {default}")
    sub.add_argument(
        "--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", help="change one setting; repeatable"
    )


def ngram(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    config = validate_section("ngram", NgramConfig, {name: getattr(options, name) for name in FIELDS})
    pipeline = build_config("default", [*WHOLE, *options.set], options.corpus)
    from rnnlm.corpora.download import check_source
    from rnnlm.evaluation.ngram.ngram_evaluation import measure_ngram

    check_source(pipeline.corpus)
    result = measure_ngram(home, pipeline, config)
    say(summary(result), result.model_dump(mode="json"))


def summary(result: "NgramResult") -> str:
    """A small table, what to beware of, and the samples."""
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
    note = [] if result.normalised else [NOT_COMPARABLE]
    samples = [line for sample in result.samples for line in ("", sample.text)]
    return "\n".join([*columns([row]), *note, *samples])
