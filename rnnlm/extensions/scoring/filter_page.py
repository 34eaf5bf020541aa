"""The report that `rnnlm filter` writes."""

from rnnlm.display.text_layout import TableRows, shorten
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.text_filter import FilterRecord
from rnnlm.reports.page import Page, left_out_tables

BAR_WIDTH = 36  # The number of characters of the longest bar.
EXAMPLE_WIDTH = 60


def filter_page(config: FilterConfig, found: FilterRecord) -> Page:
    if found.output is None or found.picture is None:
        return Page("Filter", facts={"filter": f"{config.input}: nothing to filter"})
    return Page(
        title="Filter",
        facts={
            "kept": found.output,
            "dropped": found.dropped or "not written; --dropped FOLDER writes them with their reasons",
            "scores": found.scoring.output,
            "model": f"{found.scoring.model}, {found.scoring.model_digest[:16]}",
            "rules": " and ".join(f"({rule})" for rule in found.rules) if len(found.rules) > 1 else found.rules[0],
        },
        tables={
            "": count_rows(found),
            "bits per byte: kept ▒, dropped █": histogram(found.bins),
            "kept, closest to the limit": example_rows(found.kept_examples),
            "dropped, closest to the limit": example_rows(found.dropped_examples),
            **left_out_tables(found.scoring.left_out),
        },
        pictures={"Kept and dropped documents": found.picture},
        stage=found.scoring,
    )


def count_rows(found: FilterRecord) -> TableRows:
    """Return a table row for the kept documents and one for each reason to drop documents."""
    documents, size = (sum(row[name] for row in found.counts) for name in ("documents", "bytes"))
    return [
        {
            "": "kept" if row["reason"] is None else "dropped",
            "documents": f"{row['documents']:,}",
            "share": f"{row['documents'] / documents:.1%}",
            "bytes": f"{row['bytes']:,}",
            "of bytes": f"{row['bytes'] / max(size, 1):.1%}",
            "reason": row["reason"] or "",
        }
        for row in found.counts
    ]


def histogram(bins: TableRows) -> TableRows:
    """Return the table rows of a text histogram, each of whose bars combines two of the given bins."""
    pairs = list(zip(bins[::2], bins[1::2], strict=True))
    bars = [(one["low"], one["scored"] + two["scored"], one["reference"] + two["reference"]) for one, two in pairs]
    scale = BAR_WIDTH / max((kept + dropped for _, kept, dropped in bars), default=1)
    return [
        {
            "from": f"{low:.2f}",
            "documents": f"{kept + dropped:,}",
            "": f"{'▒' * round(kept * scale) + '█' * round(dropped * scale):<{BAR_WIDTH}}",
        }
        for low, kept, dropped in bars
    ]


def example_rows(examples: TableRows) -> TableRows:
    return [
        {"bits/byte": f"{row['bits_per_byte']:.3f}", "text": shorten(row["text"] or "", EXAMPLE_WIDTH)}
        for row in examples
    ]
