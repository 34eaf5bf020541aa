"""A report about a dataset, with plots and the tables that the queries in sql/descriptions return.

The report shows sizes, lengths, the vocabulary, duplicates, and text that occurs in more than one split.
"""

from pathlib import Path

import duckdb

from rnnlm.display.plots import PALE, RED, new_figure, set_titles
from rnnlm.display.text_layout import TableRows
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import DatasetRecord, Record
from rnnlm.storage.sql_statements import names
from rnnlm.storage.stages import write_once

LENGTH_BINS = 40
TOKENS_SHOWN = 15
LINES_SHOWN = 5
PLOT_SIZE = (7.0, 3.6)  # The width and height of a plot in inches.


class Description(Record):
    """The tables that describe a dataset. The comments at the top of sql/descriptions describe their columns."""

    dataset_id: str
    mode: str
    vocabulary_size: int
    splits: TableRows
    lengths: TableRows  # The lengths of the rows of the training split.
    frequent_tokens: TableRows
    rarest_tokens: TableRows
    coverage: TableRows
    duplicates: TableRows
    leaks: TableRows
    # The sources of the text. The list is empty for datasets of older versions, which did not store sources.
    sources: TableRows = []
    longest_lines: TableRows


def describe_dataset(home: Home, dataset: DatasetRecord, *, force: bool = False) -> tuple[Description, list[Path]]:
    """Return the description of a dataset and its plots, which are stored under home.descriptions."""
    folder = home.descriptions / dataset.dataset_id

    def build(partial: Path) -> None:
        description = measure_dataset(dataset)
        write_json(partial / "description.json", description.model_dump())
        draw_description(description, partial)

    write_once(home, folder, build, force=force)
    return Description(**read_json(folder / "description.json")), sorted(folder.glob("*.png"))


def measure_dataset(dataset: DatasetRecord) -> Description:
    """Return all tables that describe a dataset file."""
    longest = "longest_sentences" if dataset.mode == "sentence" else "longest_lines"
    parameters: dict[str, dict[str, int]] = {
        "lengths": {"bins": LENGTH_BINS},
        "frequent_tokens": {"count": TOKENS_SHOWN},
        "rarest_tokens": {"count": TOKENS_SHOWN},
        longest: {"count": LINES_SHOWN},
    }
    tables = {}
    for name in (path.removeprefix("descriptions/") for path in names("descriptions")):
        # Each table uses a new connection, because a connection keeps what it has read in memory.
        with connect(dataset) as connection:
            if (not name.startswith("longest") or name == longest) and (name != "sources" or knows_sources(connection)):
                tables[name] = table(connection, f"descriptions/{name}", parameters.get(name, {}))
    tables["longest_lines"] = tables.pop(longest)
    return Description(
        dataset_id=dataset.dataset_id, mode=dataset.mode, vocabulary_size=dataset.vocabulary_size, **tables
    )


def knows_sources(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return False for a dataset of an older version, which did not store its sources."""
    return "source_number" in connection.table("documents").columns


def draw_description(description: Description, folder: Path) -> None:
    """Write the plots lengths.png and coverage.png."""
    lengths = description.lengths
    figure, (axes,) = new_figure(PLOT_SIZE)
    axes.bar(
        [row["first_length"] for row in lengths],
        [row["sequence_count"] for row in lengths],
        width=[row["last_length"] - row["first_length"] + 1 for row in lengths],
        align="edge",
        color=PALE,
        edgecolor="white",
        linewidth=0.5,
    )
    set_titles(axes, "Rows of the training split by length", "predicted tokens in a row", "rows")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    figure.savefig(folder / "lengths.png")

    coverage = description.coverage
    figure, (axes,) = new_figure(PLOT_SIZE)
    sizes, shares = [row["vocabulary"] for row in coverage], [100 * row["share"] for row in coverage]
    axes.plot(sizes, shares, color=RED, marker="o", markersize=4)
    title = "How much of the training split a vocabulary covers"
    set_titles(axes, title, "most frequent tokens", "% of the predicted tokens")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(0, 103)
    figure.savefig(folder / "coverage.png")
