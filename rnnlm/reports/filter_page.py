"""Reports on a filter: text for the terminal, Markdown with the histogram for the Prefect UI."""

from rnnlm.display.text_layout import (
    FactRows,
    TableRows,
    columns,
    facts,
    markdown_table,
    markdown_tables,
    picture_report,
    shorten,
    text_tables,
)
from rnnlm.scoring.filter_config import FilterConfig
from rnnlm.scoring.text_filter import FilterRecord

BAR_WIDTH = 44  # characters of the longest bar
EXAMPLE_WIDTH = 60


def filter_text(config: FilterConfig, found: FilterRecord) -> str:
    """The output of `rnnlm filter`."""
    if found.output is None:
        return f"filter     {config.input}: nothing to filter"
    lines = [
        f"kept       {found.output}",
        f"dropped    {found.dropped or 'not written; --dropped FOLDER writes them with their reasons'}",
        f"scores     {found.scoring.output}",
        f"model      {found.scoring.model}, {found.scoring.model_digest[:16]}",
        *(f"rule       {rule}" for rule in found.rules),
        "",
        *columns(count_rows(found)),
    ]
    if found.bins:
        lines += ["", "bits per byte: kept ▒, dropped █", *histogram(found.bins), "", f"picture    {found.picture}"]
    return "\n".join([*lines, *text_tables(example_tables(found))])


def count_rows(found: FilterRecord) -> TableRows:
    """One row per reason, the kept documents first."""
    documents, size = (sum(row[name] for row in found.counts) for name in ("documents", "bytes"))
    return [
        {
            "": "kept" if row["reason"] is None else "dropped",
            "documents": f"{row['documents']:,}",
            "share": f"{row['documents'] / documents:.1%}",
            "bytes": f"{row['bytes']:,}",
            "share of bytes": f"{row['bytes'] / max(size, 1):.1%}",
            "reason": row["reason"] or "",
        }
        for row in found.counts
    ]


def histogram(bins: TableRows) -> list[str]:
    """A bar per two bins."""
    pairs = list(zip(bins[::2], bins[1::2], strict=True))
    bars = [(one["low"], one["scored"] + two["scored"], one["reference"] + two["reference"]) for one, two in pairs]
    scale = BAR_WIDTH / max(kept + dropped for _, kept, dropped in bars)
    return [
        f"{low:8.2f}  {'▒' * round(kept * scale)}{'█' * round(dropped * scale)} {kept + dropped:,}"
        for low, kept, dropped in bars
    ]


def example_tables(found: FilterRecord) -> dict[str, TableRows]:
    """The documents closest to the line, on each side."""
    return {
        title: [
            {"bits/byte": f"{row['bits_per_byte']:.3f}", "text": shorten(row["text"] or "", EXAMPLE_WIDTH)}
            for row in rows
        ]
        for title, rows in (
            ("kept, closest to the line", found.kept_examples),
            ("dropped, closest to the line", found.dropped_examples),
        )
    }


def filter_report(config: FilterConfig, found: FilterRecord) -> str:
    """Markdown: the counts, the histogram, and examples."""
    if found.output is None or found.picture is None:
        return f"## Filter\n\n`{config.input}`: nothing to filter"
    rows: FactRows = [
        ("input", f"`{config.input}`"),
        ("kept", f"`{found.output}`"),
        ("dropped", f"`{found.dropped}`" if found.dropped else "not written"),
        ("scores", f"`{found.scoring.output}`"),
        ("model", f"`{found.scoring.model}`, `{found.scoring.model_digest[:16]}`"),
        *(("rule", f"`{rule}`") for rule in found.rules),
    ]
    return "\n\n".join(
        [
            facts("Filter", found.scoring, rows),
            markdown_table(count_rows(found)),
            picture_report("Kept and dropped documents", found.picture),
            *markdown_tables(example_tables(found)),
        ]
    )
