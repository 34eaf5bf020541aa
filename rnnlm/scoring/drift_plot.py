"""Bits per byte of scored texts and of validation text: two distributions in one picture."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rnnlm.scoring.drift import Distributions

INK, REFERENCE, SCORED = "#333333", "#9db7d5", "#c0392b"


def draw_distributions(found: "Distributions", unit: str, picture: Path) -> None:
    """Above, the share of documents in each bin; below, the share at a value or below it, where the distance is read.

    The first and the last bin hold what lies beyond them, too. Drawn without pyplot: safe in threads.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    edges = [row["low"] for row in found.bins] + [found.bins[-1]["low"] + found.bin_width]
    for column, count, colour, label in (
        ("reference", found.reference_documents, REFERENCE, f"validation text, {found.reference_documents:,} {unit}s"),
        ("scored", found.documents, SCORED, f"scored, {found.documents:,} documents"),
    ):
        shares = [100 * row[column] / count for row in found.bins]
        above.stairs(shares, edges, fill=column == "reference", color=colour, linewidth=1.6, label=label)
        summed = [sum(shares[: index + 1]) for index in range(len(shares))]
        below.plot(edges, [0.0, *summed], color=colour, linewidth=1.6)
    above.set_title("What the documents cost", loc="left", color=INK, fontweight="bold")
    above.set_ylabel("share of documents, %")
    above.legend(frameon=False)
    below.set_ylabel("at or below, %")
    below.set_xlabel("bits per byte")
    for axes in (above, below):
        axes.grid(axis="y", color="#e6e6e6")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, format="png")
