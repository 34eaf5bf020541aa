"""Reports on a dataset: a description of its content, and the checks before training on it."""

from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.display.text_layout import TableRows, shorten, span, visible
from rnnlm.reports.page import Page
from rnnlm.sequences.dataset_report import Description

if TYPE_CHECKING:  # The import is only for type annotations, because it would load the registry.
    from rnnlm.registry.data_gates import GatesRecord

BYTE_SIGNS = "In tokens, Ġ is a space before the piece, and signs such as Ã are single bytes of other characters."
BAR_CHARACTERS = 40  # The number of characters of the longest bar on a terminal.


def description_tables(description: Description) -> dict[str, TableRows]:
    """Return tables with formatted values. The keys are their titles, in the order of the report."""
    repeats = {row["split"]: row for row in description.duplicates}
    leaks = {row["split"]: row for row in description.leaks}
    sources = {row["split"]: row for row in description.sources}
    unit = "rows" if description.mode == "sentence" else "documents"
    return {
        "Splits": [
            {
                "split": row["split"],
                "documents": f"{row['document_count']:,}",
                "lines": f"{row['line_count']:,}",
                "bytes": f"{row['byte_count']:,}",
                "rows": f"{row['sequence_count']:,}",
                "predicted tokens": f"{row['predicted_tokens']:,}",
                "mean row": f"{row['mean_length']:.1f}",
                "longest row": f"{row['longest_row']:,}",
                "unknown": f"{row['unknown_rate']:.2%}",
            }
            for row in description.splits
        ],
        f"Duplicates and leaks ({unit} that are also in the training split)": [
            {
                "split": split,
                "repeated rows": share(row["repeated_sequences"], row["sequence_count"]),
                "repeated documents": share(row["repeated_documents"], row["document_count"]),
                "leaked": share(leaks[split]["leaked_units"], leaks[split]["unit_count"]) if split in leaks else "",
                "of its tokens": f"{leaks[split]['leaked_share']:.2%}" if split in leaks else "",
                "documents whose source is also in training": share(
                    sources[split]["shared_documents"], sources[split]["document_count"]
                )
                if split in sources
                else "",
            }
            for split, row in repeats.items()
        ],
        "Most frequent tokens": token_rows(description.frequent_tokens),
        "Rarest tokens": token_rows(description.rarest_tokens),
        "Coverage of the training split": [
            {"most frequent tokens": f"{row['vocabulary']:,}", "cover": f"{row['share']:.2%}"}
            for row in description.coverage
        ],
        "Longest lines": [
            {
                "split": row["split"],
                "predicted tokens": f"{row['predicted_tokens']:,}",
                "begins with": shorten(row["opening"]),
            }
            for row in description.longest_lines
        ],
        "Rows of the training split by predicted tokens": length_bars(description.lengths),
    }


def share(part: int, whole: int) -> str:
    return f"{part:,} ({part / max(1, whole):.1%})"


def token_rows(rows: TableRows) -> TableRows:
    return [
        {"token": visible(row["token"]), "times": f"{row['training_count']:,}", "share": f"{row['share']:.3%}"}
        for row in rows
    ]


def description_page(description: Description, pictures: list[Path]) -> Page:
    tokens = [row["token"] for row in [*description.frequent_tokens, *description.rarest_tokens]]
    return Page(
        title=f"Dataset {description.dataset_id}",
        facts={
            "dataset": f"{description.dataset_id}, {description.mode} mode, {description.vocabulary_size:,} ids",
        },
        tables=description_tables(description),
        note=BYTE_SIGNS if any("Ġ" in token for token in tokens) else "",
        pictures={path.stem.capitalize(): path for path in pictures},
    )


def length_bars(lengths: TableRows) -> TableRows:
    """Return a table with a bar for each bin of the distribution of lengths."""
    most = max((row["sequence_count"] for row in lengths), default=0)
    return [
        {
            "predicted tokens": span(row["first_length"], row["last_length"]),
            "": f"{'█' * round(BAR_CHARACTERS * row['sequence_count'] / most):<{BAR_CHARACTERS}}",
            "rows": f"{row['sequence_count']:,}",
        }
        for row in lengths
    ]


def gates_report(gates: "GatesRecord") -> str:
    """Return a report of all gates and their thresholds, in Markdown."""
    rows: TableRows = [
        {
            "gate": result.gate,
            "outcome": result.outcome,
            "measured": result.text,
            "warns above": threshold(result.warn_at),
            "stops above": threshold(result.stop_at),
        }
        for result in gates.results
    ]
    title = "Checks before training" + (": stopped, the champion stays" if gates.with_outcome("stopped") else "")
    return Page(title, tables={"": rows}).markdown()


def threshold(share: float | None) -> str:
    return "never" if share is None else f"{share:.0%}"
