"""The report on a bulk scoring."""

from rnnlm.display.text_layout import TableRows
from rnnlm.reports.page import Page
from rnnlm.scoring.bulk_scoring import ScoringRecord, Totals
from rnnlm.scoring.drift import Distributions, Drift
from rnnlm.scoring.scoring_config import ScoringConfig

DISTANCE_NOTE = (
    "The distance is that of Kolmogorov and Smirnov: the widest gap between the two lower curves, "
    "0 if they are the same, 1 if they do not overlap."
)


def scoring_page(config: ScoringConfig, scoring: ScoringRecord, drift: Drift) -> Page:
    if scoring.output is None:
        return Page("Scores", facts={"scores": f"{config.input}: nothing to score"})
    state = "skipped: it holds these scores (--force)" if scoring.skipped else f"{scoring.seconds:.1f} s"
    changed = config.model_dump(exclude={"input", "output", "model"}, exclude_defaults=True)
    compared, picture = drift.distributions, drift.picture
    return Page(
        title="Scores",
        facts={
            "scores": f"{scoring.output}: {state}",
            "model": f"{scoring.model}, {scoring.model_digest[:16]}",
            "settings": " ".join(f"{name}={value}" for name, value in changed.items()) or "the defaults",
            "together": totals_line(scoring.totals),
            "drift": drift_line(drift),
        },
        tables={"": quantile_rows(compared)} if compared else {},
        note=DISTANCE_NOTE if compared else "",
        pictures={"Bits per byte, beside validation text": picture} if compared and picture else {},
    )


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
