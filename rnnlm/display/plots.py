"""Figures in a common style. They are created without pyplot, because its global state is not safe in threads."""

from collections.abc import Sequence
from typing import Any

INK, GREY, PALE, BLUE, RED = "#333333", "#8a8a8a", "#9db7d5", "#2c5f8a", "#c0392b"
ORANGE, GREEN, PURPLE, BROWN, PINK, OLIVE = "#d98c21", "#4b8b57", "#7a5195", "#8c6d46", "#d45087", "#a3a32f"


def new_figure(size: tuple[float, float], rows: int = 1, columns: int = 1, **arrangement: Any) -> tuple[Any, list[Any]]:
    """Return a figure of `size` inches and its panels, row by row.

    `arrangement` contains arguments for matplotlib's Figure.subplots.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=130, layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, **arrangement).flat)
    for axes in panels:
        axes.grid(axis="y", color="#e6e6e6")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def set_titles(axes: Any, title: str, x: str = "", y: str = "") -> None:
    """Set the title and the axis labels of a panel. In a row of panels, only the first one has the label y."""
    axes.set_title(title, loc="left", color=INK, fontweight="bold")
    axes.set_xlabel(x)
    if axes.get_subplotspec().is_first_col():
        axes.set_ylabel(y)


def set_legend(figure: Any, *panels: Any) -> None:
    """Add a legend with the labels of the panels below all panels, where it covers no curve.

    A label that several panels have is shown once.
    """
    found = [axes.get_legend_handles_labels() for axes in panels]
    handles = {label: handle for handles, labels in found for handle, label in zip(handles, labels, strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False)


def set_plain_ticks(axis: Any, leading_digits: Sequence[float], numbers: str) -> None:
    """Set ticks at 1, 2, 5, 10, 20, … on a logarithmic axis instead of powers of ten.

    `leading_digits` are the digits 1, 2 and 5 in this example. `numbers` is a format such as `{x:g}`.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=leading_digits))
    axis.set_major_formatter(StrMethodFormatter(numbers))
    axis.set_minor_formatter(NullFormatter())
