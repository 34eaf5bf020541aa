"""Plots of a dataset: row lengths and vocabulary coverage."""

from pathlib import Path
from typing import Any

INK, BARS, LINE = "#333333", "#9db7d5", "#c0392b"


def draw_description(description: dict[str, Any], folder: Path) -> None:
    """Write lengths.png and coverage.png from the tables of a Description."""
    lengths = description["lengths"]
    figure, axes = dataset_figure()
    axes.bar(
        [row["first_length"] for row in lengths],
        [row["sequence_count"] for row in lengths],
        width=[row["last_length"] - row["first_length"] + 1 for row in lengths],
        align="edge",
        color=BARS,
        edgecolor="white",
        linewidth=0.5,
    )
    axes.set(title="Rows of the training split by length", xlabel="predicted tokens in a row", ylabel="rows")
    figure.savefig(folder / "lengths.png", dpi=110)

    coverage = description["coverage"]
    figure, axes = dataset_figure()
    axes.plot(
        [row["vocabulary"] for row in coverage],
        [100 * row["share"] for row in coverage],
        color=LINE,
        marker="o",
        markersize=4,
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(axes.yaxis.get_major_formatter())
    axes.set_ylim(0, 103)
    axes.set(
        title="How much of the training split a vocabulary covers",
        xlabel="most frequent tokens",
        ylabel="% of the predicted tokens",
    )
    figure.savefig(folder / "coverage.png", dpi=110)


def dataset_figure() -> tuple[Any, Any]:
    """Figure and axes without pyplot: no global state, no window, thread-safe."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    return figure, axes
