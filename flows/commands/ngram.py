"""Measure a count-based model on a corpus with `rnnlm ngram`."""

from typing import TYPE_CHECKING, Annotated

from flows.commands.command import Session
from flows.commands.option_groups import fields
from flows.commands.options import RequiredCorpus, Set, dataset_config
from rnnlm.display.text_layout import columns
from rnnlm.evaluation.ngram.ngram_config import NgramConfig

if TYPE_CHECKING:
    from rnnlm.evaluation.ngram.ngram_evaluation import NgramResult

UNCUT_TEXT = ("tokenizer.kind=word", "tokenizer.vocabulary_size=1000000", "sequences.context_length=65536")

HEADING = "Measure"


def ngram_command(
    session: Session,
    corpus: RequiredCorpus,
    config: Annotated[NgramConfig, fields("method", "order", "samples", "seed", "memory_limit", "threads")],
    set: Set = None,
) -> None:
    """Measure the perplexity of a count-based model on a corpus.

    rnnlm ngram --corpus python-docs --order 5 --samples 2
    """
    pipeline = dataset_config(corpus, set, *UNCUT_TEXT)
    from rnnlm.evaluation.ngram.ngram_evaluation import measure_ngram

    result = measure_ngram(session.home, pipeline, config)
    session.print_result(ngram_text(result), result)


def ngram_text(result: "NgramResult") -> str:
    """Return a table with one row, a warning if the result is not a proper perplexity, and the samples."""
    figures = {"test perplexity" if result.normalised else "test figure": f"{result.test_perplexity:.2f}"}
    if result.validation_perplexity is not None:
        figures["validation perplexity"] = f"{result.validation_perplexity:.2f}"
    row = {
        "model": f"{result.order}-gram, {result.method}",
        **figures,
        "tokens": f"{result.tokens:,}",
        "unknown": f"{result.unknown_rate:.2%}",
        "seconds": f"{result.seconds:.1f}",
    }
    note = (
        []
        if result.normalised
        else ["this is not a normalised distribution, so it is not comparable with perplexities"]
    )
    samples = [line for sample in result.samples for line in ("", sample.text)]
    return "\n".join([*columns([row]), *note, *samples])
