"""Scores as rows of tables: a model beside its baselines, or beside its test-time adaptations.

A heading names the split and the measure, such as `test perplexity`, unless the row names its split.
"""

from typing import TYPE_CHECKING, Any

from rnnlm.records import EvaluationRecord, PartScore, SplitScore
from rnnlm.text_layout import TableRows

if TYPE_CHECKING:  # its import would load torch
    from rnnlm.evaluation.test_time_adaptation.adaptation_table import AdaptationTable


SPLIT_NAMES = {"train": "training", "valid": "validation", "test": "test", "all": "whole-text"}


def score_rows(evaluation: EvaluationRecord) -> TableRows:
    """For each split the network, beside the uniform and the unigram baseline; the counts; and both mixed."""
    rows: TableRows = []
    for score in evaluation.scores.values():
        whole = {"split": score.split, "model": "network", **figures(score)}
        network, counts = score.network, score.counts
        if network is None:
            rows.append(whole)
        else:
            rows.append(blank(whole) | part_row(score.split, "network", network))
        if counts is not None:
            rows.append(blank(whole) | part_row(score.split, f"{counts.order}-gram counts", counts))
        if network is not None:
            rows.append(whole | {"model": "mixed"})
    return rows


def blank(row: dict[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(row, "")


def part_row(split: str, model: str, score: PartScore) -> dict[str, Any]:
    return {
        "split": split,
        "model": model,
        "perplexity": f"{score.perplexity:.2f}",
        "bits/byte": f"{score.bits_per_byte:.3f}",
    }


def counts_sentence(score: SplitScore) -> str:
    """What counting gives beside a network; "" if it was not counted."""
    if score.counts is None:
        return ""
    counts, network = score.counts, score.network or score
    difference = counts.perplexity / network.perplexity - 1
    beside = "better than the network" if difference < 0 else "worse than the network"
    sentence = (
        f"{counts.order}-gram counts ({counts.seconds:.0f} s) have {SPLIT_NAMES[score.split]} perplexity "
        f"{counts.perplexity:.2f}, {beside} by {abs(difference):.0%}"
    )
    if score.network is None:
        return sentence
    gain = 1 - score.perplexity / min(counts.perplexity, network.perplexity)
    return f"{sentence}; mixed, both have {score.perplexity:.2f}, {gain:.0%} below the better of them"


def score_row(score: SplitScore) -> dict[str, Any]:
    """The only row of a table."""
    return figures(score, f"{SPLIT_NAMES[score.split]} ")


def figures(score: SplitScore, of: str = "") -> dict[str, Any]:
    """of: what the headings begin with."""
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


def adaptation_rows(table: "AdaptationTable") -> TableRows:
    """One row per variant, the plain model first."""
    static = table.variants[0].perplexity
    return [
        {
            "model": variant.name,
            "tokens": f"{table.tokens:,}",
            f"{SPLIT_NAMES[table.split]} perplexity": f"{variant.perplexity:.2f}",
            "change": f"{variant.perplexity / static - 1:+.1%}" if index else "",
            "settings": " ".join(f"{name}={value:.4g}" for name, value in variant.settings.items()),
        }
        for index, variant in enumerate(table.variants)
    ]
