"""Plots of a dataset: row lengths and vocabulary coverage."""

from pathlib import Path
from typing import Any

from rnnlm.display.plots import PALE, RED, new_figure, set_titles

SIZE = (7.0, 3.6)


def draw_description(description: dict[str, Any], folder: Path) -> None:
    """Write lengths.png and coverage.png from the tables of a Description."""
    lengths = description["lengths"]
    figure, (axes,) = new_figure(SIZE)
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

    coverage = description["coverage"]
    figure, (axes,) = new_figure(SIZE)
    sizes, shares = [row["vocabulary"] for row in coverage], [100 * row["share"] for row in coverage]
    axes.plot(sizes, shares, color=RED, marker="o", markersize=4)
    title = "How much of the training split a vocabulary covers"
    set_titles(axes, title, "most frequent tokens", "% of the predicted tokens")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(0, 103)
    figure.savefig(folder / "coverage.png")
