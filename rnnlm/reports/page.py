"""A report that shows the same facts, tables and plots on the terminal and, in Markdown, in Prefect's UI."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rnnlm.display.text_layout import (
    LINE_WIDTH,
    TableRows,
    fact_lines,
    markdown_picture,
    markdown_table,
    markdown_text,
    text_tables,
)
from rnnlm.storage.records import LeftOut, StageRecord


@dataclass(frozen=True)
class Page:
    """A report with facts, tables and plots.

    The titles of tables and pictures may be empty. Facts without a value and empty tables are omitted.
    """

    title: str
    facts: Mapping[str, object] = field(default_factory=dict)  # Values that are shown with their names.
    tables: Mapping[str, TableRows] = field(default_factory=dict)  # The rows of each table, by title.
    note: str = ""  # An explanation of the tables in Markdown.
    pictures: Mapping[str, Path] = field(default_factory=dict)  # The PNG file of each picture, by title.
    # Other files by name, which are listed only on the terminal.
    files: Mapping[str, Path] = field(default_factory=dict)
    # The stage whose state is shown in Markdown: done, or the time since which it is skipped.
    stage: StageRecord | None = None

    def text(self) -> str:
        """Return the report for the terminal. Pictures are listed by their paths."""
        lines = [*fact_lines(self.facts), *text_tables(self.tables)]
        lines += ["", textwrap.fill(self.note, LINE_WIDTH)] if self.note else []
        files = {"picture": list(self.pictures.values()), **self.files}
        return "\n".join([*lines, "", *fact_lines(files)]).strip("\n")

    def markdown(self) -> str:
        """Return the report for Prefect's UI. Pictures are embedded."""
        parts = [f"## {self.title}"]
        if self.stage is not None:
            parts.append(f"*{stage_state(self.stage)}*")
        if facts := [{"": name, " ": value} for name, value in self.facts.items() if value not in ("", None)]:
            parts.append(markdown_table(facts))
        for title, path in self.pictures.items():
            parts += [*heading(title), markdown_picture(title or self.title, path)]
        parts += [self.note] if self.note else []
        for title, rows in self.tables.items():
            parts += [*heading(title), markdown_table(rows)] if rows else []
        return "\n\n".join(parts)


def left_out_tables(left_out: Sequence[LeftOut]) -> dict[str, TableRows]:
    """Return tables of the files of a source that were not read or were read with changes."""
    return {
        title: [{"file": one.name, "reason": one.reason} for one in left_out if one.read == read]
        for title, read in (("Read with changes", True), ("Left out", False))
    }


def heading(title: str) -> list[str]:
    return [f"### {markdown_text(title)}"] if title else []


def stage_state(stage: StageRecord) -> str:
    return "skipped: its verified output exists" if stage.skipped else f"done in {stage.seconds:.1f} s"
