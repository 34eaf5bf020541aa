"""Scores as rows of tables: a model beside its baselines, or beside its test-time adaptations.

A heading names the split and the measure, such as `test perplexity`, unless the row names its split.
"""

from typing import TYPE_CHECKING, Any

from rnnlm.records import EvaluationRecord, SplitScore
from rnnlm.text_layout import TableRows

if TYPE_CHECKING:  # its import would load torch
    from rnnlm.evaluation.test_time_adaptation.adaptation_table import AdaptationTable


SPLIT_NAMES = {"train": "training", "valid": "validation", "test": "test", "all": "whole-text"}


def score_rows(evaluation: EvaluationRecord) -> TableRows:
    """For each split the network, beside the uniform and the unigram baseline; the counts; and both mixed."""
    rows: TableRows = []
    for score in evaluation.scores.values():
        rows.append({"split": score.split, "model": "network", **figures(score)})
        if (counts := score.counts) is not None:
            alone = f"{counts.order}-gram counts", counts.perplexity, counts.bits_per_byte
            both = "mixed", counts.mixed_perplexity, counts.mixed_bits_per_byte
            for model, perplexity, bits in (alone, both):
                shown = {"split": score.split, "model": model, "perplexity": f"{perplexity:.2f}"}
                rows.append(dict.fromkeys(rows[-1], "") | shown | {"bits/byte": f"{bits:.3f}"})
    return rows


def counts_sentence(score: SplitScore) -> str:
    """What counting gives beside a network; "" if it was not counted."""
    if score.counts is None:
        return ""
    counts, names = score.counts, f"{score.counts.order}-gram counts ({score.counts.seconds:.0f} s)"
    difference = counts.perplexity / score.perplexity - 1
    beside = "better than this network" if difference < 0 else "worse than this network"
    gain = 1 - counts.mixed_perplexity / min(counts.perplexity, score.perplexity)
    return (
        f"{names} have test perplexity {counts.perplexity:.2f}, {beside} by {abs(difference):.0%}; mixed, both have "
        f"{counts.mixed_perplexity:.2f}, {gain:.0%} below the better of them"
    )


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
