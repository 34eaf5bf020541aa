"""The report that `rnnlm score` writes."""

from pathlib import Path

from rnnlm.display.text_layout import TableRows, visible
from rnnlm.extensions.scoring.bulk_scoring import Totals
from rnnlm.extensions.scoring.drift import Distributions, Drift, ScoredRecord
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.strange_documents import StrangeDocument
from rnnlm.reports.page import Page, left_out_tables

DISTANCE_NOTE = (
    "The distance is that of Kolmogorov and Smirnov: the widest gap between the two lower curves, "
    "0 if they are the same, 1 if they do not overlap."
)


EXCERPT_WIDTH = 48  # The number of characters in an excerpt of a text.


def scoring_page(config: ScoringConfig, scored: ScoredRecord) -> Page:
    scoring, drift = scored.scoring, scored.drift
    if scoring.output is None:
        return Page("Scores", facts={"scores": f"{config.input}: nothing to score"})
    state = (
        "skipped, because it has these scores already; --force scores again"
        if scoring.skipped
        else f"{scoring.seconds:.1f} s"
    )
    changed = config.model_dump(exclude={"input", "output", "model"}, exclude_defaults=True)
    compared, picture = drift.distributions, drift.picture
    strange = "none" if config.top and not scored.strange else ""
    return Page(
        title="Scores",
        facts={
            "scores": f"{scoring.output}: {state}",
            "model": f"{scoring.model}, {scoring.model_digest[:16]}",
            "settings": " ".join(f"{name}={value}" for name, value in changed.items()) or "the defaults",
            "together": totals_line(scoring.totals),
            "drift": drift_line(drift),
            "strange": strange,
        },
        tables={
            "the strangest; `by` counts median deviations from the median": strange_rows(
                scored.strange, config.document
            ),
            "bits per byte": quantile_rows(compared) if compared else [],
            **left_out_tables(scoring.left_out),
        },
        note=DISTANCE_NOTE if compared else "",
        pictures={"Bits per byte, compared with validation text": picture} if compared and picture else {},
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
    """Return a table of bits per byte with one row per quantile level."""
    return [
        {
            "of the documents": f"{row['level']:.0%}",
            "scored, at most": f"{row['scored']:.3f}",
            "validation text, at most": f"{row['reference']:.3f}",
        }
        for row in found.quantiles
    ]


def strange_rows(strange: tuple[StrangeDocument, ...], unit: str) -> TableRows:
    """Return one row for each strange document that was found. Lines, paragraphs and rows are numbered from 1."""
    several = len({document.source for document in strange}) > 1
    return [
        {
            "text": excerpt(document.text, document.marks, EXCERPT_WIDTH),
            "by": f"{document.deviations:.1f}",
            "usually": usual_size(document.number.usual) if document.number else "",
            unit: f"{Path(document.source).name}:{document.place + 1}" if several else f"{document.place + 1:,}",
            "alike": f"{document.documents:,}",
        }
        for document in strange
    ]


def usual_size(size: float) -> str:
    return f"{size:,.0f}" if 100 <= size < 1e15 else f"{size:.4g}"


def excerpt(text: str, marks: tuple[tuple[int, int], ...], width: int) -> str:
    """Return about `width` characters of the text around its first marked range, with the ranges in »guillemets«."""
    parts, end = [], 0
    for start, stop in marks:
        parts += [visible(text[end:start]), "»", visible(text[start:stop]), "«"]
        end = stop
    marked = "".join([*parts, visible(text[end:])])
    if len(marked) <= width:
        return marked
    first = max(0, min(marked.find("»") - width // 3, len(marked) - width + 1))
    last = first + width - 2
    return ("…" if first else "") + marked[first:last] + ("…" if last < len(marked) else "")
