"""Table rows with the scores of a model and its baselines.

A heading contains the split and the measure, such as `test perplexity`, unless the row has a cell for the split.
"""

from typing import Any

from rnnlm.display.text_layout import TableRows
from rnnlm.storage.result_records import EvaluationRecord, PartScore, SplitScore

SPLIT_NAMES = {"train": "training", "valid": "validation", "test": "test", "all": "whole-text"}


def score_rows(evaluation: EvaluationRecord) -> TableRows:
    """Return the rows for the scores of all splits."""
    return [{"split": score.split, **row} for score in evaluation.scores.values() for row in model_rows(score)]


def score_table(score: SplitScore) -> TableRows:
    """Return the table rows of one split, whose name is in the headings."""
    return model_rows(score, f"{SPLIT_NAMES[score.split]} ")


def model_rows(score: SplitScore, of: str = "") -> TableRows:
    """Return one table row for each of the network, the n-gram model and their mixture that exists.

    The rows include the baselines. `of` is the beginning of the headings.
    """
    whole = {"model": score.model, **figures(score, of)}
    network, counts = score.network, score.counts
    rows = [] if network is None else [part_row(whole, "network", network, of)]
    if counts is not None:
        rows.append(part_row(whole, f"{counts.order}-gram counts", counts, of))
    return [whole, *rows] if network is None else [*rows, whole]


def part_row(whole: dict[str, Any], model: str, score: PartScore, of: str) -> dict[str, Any]:
    shown = {
        "model": model,
        f"{of}perplexity": f"{score.perplexity:.2f}",
        f"{of}bits/byte": f"{score.bits_per_byte:.3f}",
    }
    return dict.fromkeys(whole, "") | shown


def counts_sentence(score: SplitScore) -> str:
    """Return a sentence that compares the network with the n-gram model, or "" without an n-gram model."""
    if score.counts is None:
        return ""
    counts, network = score.counts, score.network or score
    difference = counts.perplexity / network.perplexity - 1
    beside = "better than the network" if difference < 0 else "worse than the network"
    took = "" if counts.seconds is None else f" ({counts.seconds:.0f} s)"
    sentence = (
        f"{counts.order}-gram counts{took} have {SPLIT_NAMES[score.split]} perplexity "
        f"{counts.perplexity:.2f}, {beside} by {abs(difference):.0%}"
    )
    if score.network is None:
        return sentence
    gain = 1 - score.perplexity / min(counts.perplexity, network.perplexity)
    side = "below" if gain >= 0 else "above"
    return f"{sentence}; the mixture of both has {score.perplexity:.2f}, {abs(gain):.0%} {side} the better of the two"


def figures(score: SplitScore, of: str = "") -> dict[str, Any]:
    """Return the values of a table row by heading. `of` is the beginning of the headings."""
    row = {
        "tokens": f"{score.tokens:,}",
        f"{of}perplexity": f"{score.perplexity:.2f}",
        "unigram": f"{score.unigram_perplexity:.2f}",
        "uniform": f"{score.uniform_perplexity:,.0f}",
        f"{of}bits/byte": f"{score.bits_per_byte:.3f}",
        "unknown": f"{score.unknown_rate:.2%}",
    }
    if score.first_rows is not None:
        row[f"{of}perplexity of the first {score.first_rows:,} rows"] = f"{score.first_rows_perplexity:.2f}"
    return row if score.seen_share is None else row | {"in training text": f"{score.seen_share:.1%}"}
