"""Scores as rows of tables: a model beside its baselines, or beside its test-time adaptations."""

from typing import TYPE_CHECKING, Any

from rnnlm.records import EvaluationRecord, SplitScore
from rnnlm.text_layout import TableRows

if TYPE_CHECKING:  # its import would load torch
    from rnnlm.evaluation.test_time_adaptation.adaptation_table import AdaptationTable


def score_rows(evaluation: EvaluationRecord) -> TableRows:
    """One row per split, the model beside the uniform and the unigram baseline."""
    return [score_row(score) for score in evaluation.scores.values()]


def score_row(score: SplitScore) -> dict[str, Any]:
    row = {
        "split": score.split,
        "tokens": f"{score.tokens:,}",
        "perplexity": f"{score.perplexity:.2f}",
        "unigram": f"{score.unigram_perplexity:.2f}",
        "uniform": f"{score.uniform_perplexity:,.0f}",
        "bits/byte": f"{score.bits_per_byte:.3f}",
        "unknown": f"{score.unknown_rate:.2%}",
    }
    if score.first_rows is not None:
        row[f"of the first {score.first_rows:,} rows"] = f"{score.first_rows_perplexity:.2f}"
    return row if score.seen_share is None else row | {"in training text": f"{score.seen_share:.1%}"}


def adaptation_rows(table: "AdaptationTable") -> TableRows:
    """One row per variant, the plain model first."""
    static = table.variants[0].perplexity
    return [
        {
            "model": variant.name,
            "split": table.split,
            "tokens": f"{table.tokens:,}",
            "perplexity": f"{variant.perplexity:.2f}",
            "change": f"{variant.perplexity / static - 1:+.1%}" if index else "",
            "settings": " ".join(f"{name}={value:.4g}" for name, value in variant.settings.items()),
        }
        for index, variant in enumerate(table.variants)
    ]
