"""The report on a dataset: its tables as text and as markdown."""

from pathlib import Path

from rnnlm.display.text_layout import TableRows, markdown_tables, picture_report, shorten, span, text_tables, visible
from rnnlm.sequences.dataset_report import Description

BYTE_SIGNS = "in tokens, Ġ is a space before the piece, and signs such as Ã are single bytes of other characters"
BAR_CHARACTERS = 40  # characters of the longest bar on a terminal


def description_tables(description: Description) -> dict[str, TableRows]:
    """Title → rows with formatted figures, in the order they are shown."""
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
        "Most frequent tokens": rows_from_lists(description.frequent_tokens),
        "Rarest tokens": rows_from_lists(description.rarest_tokens),
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
    }


def share(part: int, whole: int) -> str:
    return f"{part:,} ({part / max(1, whole):.1%})"


def rows_from_lists(rows: TableRows) -> TableRows:
    return [
        {"token": visible(row["token"]), "times": f"{row['training_count']:,}", "share": f"{row['share']:.3%}"}
        for row in rows
    ]


def description_text(description: Description, pictures: list[Path]) -> str:
    """The output of `rnnlm describe`."""
    lines = [f"dataset    {description.dataset_id}, {description.mode} mode, {description.vocabulary_size:,} ids"]
    lines += text_tables(description_tables(description))
    if has_byte_signs(description):
        lines += ["", BYTE_SIGNS]
    lines += ["", "Rows of the training split by predicted tokens", *histogram(description.lengths)]
    return "\n".join([*lines, "", *(f"picture    {path}" for path in pictures)])


def has_byte_signs(description: Description) -> bool:
    return any("Ġ" in row["token"] for row in [*description.frequent_tokens, *description.rarest_tokens])


def bar(share: float) -> str:
    return f"{'█' * round(BAR_CHARACTERS * share):<{BAR_CHARACTERS}}"


def histogram(lengths: TableRows) -> list[str]:
    """One line with a bar per bin."""
    if not lengths:
        return []
    most = max(row["sequence_count"] for row in lengths)
    spans = [span(row["first_length"], row["last_length"]) for row in lengths]
    width = max(map(len, spans))
    return [
        f"  {span.rjust(width)}  {bar(row['sequence_count'] / most)} {row['sequence_count']:,}"
        for span, row in zip(spans, lengths, strict=True)
    ]


def description_report(description: Description, pictures: list[Path]) -> str:
    """The same as markdown with embedded plots, for the Prefect UI."""
    parts = [f"## Dataset {description.dataset_id}", f"*{description.mode} mode, {description.vocabulary_size:,} ids*"]
    parts += markdown_tables(description_tables(description))
    parts += [BYTE_SIGNS] if has_byte_signs(description) else []
    return "\n\n".join([*parts, *(picture_report(path.stem.capitalize(), path) for path in pictures)])
