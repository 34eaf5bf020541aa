"""Reports on a bulk scoring: text for the terminal, markdown with the plot for the Prefect UI."""

from rnnlm.display.text_layout import FactRows, TableRows, columns, facts, markdown_table, markdown_text, picture_report
from rnnlm.scoring.bulk_scoring import ScoringRecord, Totals
from rnnlm.scoring.drift import Distributions, Drift
from rnnlm.scoring.scoring_config import ScoringConfig


def scoring_text(config: ScoringConfig, scoring: ScoringRecord, drift: Drift) -> str:
    """The output of `rnnlm score`."""
    if scoring.output is None:
        return f"scores     {config.input}: nothing to score"
    state = "skipped: it holds these scores (--force)" if scoring.skipped else f"{scoring.seconds:.1f} s"
    changed = config.model_dump(exclude={"input", "output", "model"}, exclude_defaults=True)
    settings = " ".join(f"{name}={value}" for name, value in changed.items())
    lines = [
        f"scores     {scoring.output}: {state}",
        f"model      {scoring.model}, {scoring.model_digest[:16]}",
        f"settings   {settings or 'the defaults'}",
        f"together   {totals_line(scoring.totals)}",
        f"drift      {drift_line(drift)}",
    ]
    if drift.distributions:
        lines += ["", *columns(quantile_rows(drift.distributions)), "", f"picture    {drift.picture}"]
    return "\n".join(lines)


def totals_line(totals: Totals) -> str:
    sizes = f"{totals.documents:,} documents, {totals.tokens:,} tokens, {totals.bytes:,} bytes"
    if totals.perplexity is None:
        return f"{sizes}; nothing to predict"
    return (
        f"{sizes}; perplexity {totals.perplexity:.2f}, {totals.bits_per_byte:.3f} bits/byte, "
        f"{totals.unknown_rate:.2%} unknown"
    )


def drift_line(drift: Drift) -> str:
    found = drift.distributions
    if found is None:
        return f"not measured: {drift.reason}"
    verdict = "DRIFTED" if drift.drifted else "none"
    return (
        f"{verdict}: distance {found.distance:.3f} from {found.reference_documents:,} pieces of validation text "
        f"(alarm above {max(drift.threshold, found.noise):.3f})"
    )


def quantile_rows(found: Distributions) -> TableRows:
    """Bits per byte, one row per level."""
    return [
        {
            "of the documents": f"{row['level']:.0%}",
            "scored, at most": f"{row['scored']:.3f}",
            "validation text, at most": f"{row['reference']:.3f}",
        }
        for row in found.quantiles
    ]


def scores_report(config: ScoringConfig, scoring: ScoringRecord, drift: Drift) -> str:
    """Markdown: the totals, the verdict, both distributions as table and plot."""
    if scoring.output is None:
        return f"## Scores\n\n{markdown_text(config.input)}: nothing to score"
    rows: FactRows = [
        ("output", f"`{scoring.output}`"),
        ("input", f"`{config.input}`"),
        ("model", f"`{scoring.model}`, `{scoring.model_digest[:16]}`"),
        ("together", totals_line(scoring.totals)),
        ("drift", drift_line(drift)),
    ]
    parts = [facts("Scores", scoring, rows)]
    if drift.distributions and drift.picture:
        parts += [
            picture_report("Bits per byte, beside validation text", drift.picture),
            markdown_table(quantile_rows(drift.distributions)),
            "The distance is that of Kolmogorov and Smirnov: the widest gap between the two lower curves, "
            "0 if they are the same, 1 if they do not overlap.",
        ]
    return "\n\n".join(parts)
