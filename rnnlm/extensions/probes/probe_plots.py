"""Plots of the probes' results."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnlm.display.plots import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    INK,
    OLIVE,
    ORANGE,
    PALE,
    PINK,
    PURPLE,
    RED,
    new_figure,
    set_legend,
    set_titles,
)
from rnnlm.extensions.probes.probe_records import (
    AbilityComparison,
    EchoComparison,
    GradientComparison,
    GradientFlowRecord,
    PositionsRecord,
)

START_COLOURS = {"xavier": GREY, "orthogonal": BLUE, "identity": ORANGE}
SCALED = RED
OTHER_KIND_COLOURS = (GREEN, PURPLE, RED, BROWN, PINK, OLIVE)  # The colours of kinds other than Elman networks.
LAYER_COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)
FLOOR = 1e-12  # The smallest gradient norm that is drawn.


def draw_gradient_flow(record: GradientFlowRecord, picture: Path) -> None:
    """Plot the gradient norm of each layer, on a logarithmic scale, against the distance back, as a PNG file."""
    figure, (axes,) = new_figure((8, 4.2))
    for layer, norms in enumerate(record.norms):
        label = "the layer" if len(record.norms) == 1 else f"layer {layer + 1}"
        axes.plot(*nonzero(norms), color=LAYER_COLOURS[layer % len(LAYER_COLOURS)], linewidth=1.8, label=label)
    set_decades(axes, [norm for norms in record.norms for norm in norms])
    if len(record.norms) > 1:
        set_legend(figure, axes)
    y = f"‖∂ loss / ∂ h‖, mean of {record.rows} rows"
    set_titles(axes, "How far back the gradient reaches", "steps back from the loss", y)
    figure.savefig(picture, format="png")


def draw_gradient_comparison(found: GradientComparison, picture: Path) -> None:
    """Plot the gradient norms of compared networks as a PNG file.

    There is a row of panels for each number of training steps, a column per nonlinearity, and a colour per
    initialization. Norms are those of the top layer, relative to the norm at distance 0.
    """
    curves = found.curves
    moments = sorted({curve.trained_steps for curve in curves})
    kinds = list(dict.fromkeys(curve.nonlinearity for curve in curves))
    figure, panels = new_figure((10, 3.6 * len(moments)), len(moments), len(kinds), sharey="row")
    all_norms = [norm for curve in curves for norm in curve.relative]
    for index, axes in enumerate(panels):
        moment, kind = moments[index // len(kinds)], kinds[index % len(kinds)]
        for curve in curves:
            if (curve.trained_steps, curve.nonlinearity) == (moment, kind):
                colour = START_COLOURS.get(curve.start, SCALED)
                axes.plot(*nonzero(curve.relative), color=colour, linewidth=1.8, label=curve.start)
        axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=":")
        set_decades(axes, all_norms)
        when = f"after {moment:,} steps" if moment else "at initialization"
        set_titles(axes, f"{kind}, {when}", "steps back from the loss", "‖∂ loss / ∂ h‖ relative to 0 steps")
    set_legend(figure, panels[0])
    figure.savefig(picture, format="png")


def draw_echo(found: EchoComparison, picture: Path) -> None:
    """Plot the accuracy at the cue against the distance as a PNG file.

    There is a panel for each nonlinearity of Elman networks, and one for the other kinds. A dotted line shows the
    accuracy of guessing.
    """
    chance = 100 / found.settings["symbols"]
    # The accuracies of each network by distance, for each panel.
    lines: dict[str, dict[str, dict[int, float]]] = {}
    for score in sorted(found.scores, key=lambda score: score.distance):
        panel, label = (score.nonlinearity or "other kinds"), (score.initialization or score.kind)
        lines.setdefault(panel, {}).setdefault(label, {})[score.distance] = 100 * score.accuracy
    figure, panels = new_figure((5 * len(lines), 3.8), columns=len(lines), sharey="row")
    distances = sorted({score.distance for score in found.scores})
    for axes, (kind, networks) in zip(panels, lines.items(), strict=True):
        for number, (label, line) in enumerate(networks.items()):
            width = max(1.0, 4.5 - 1.5 * number)  # The lines are narrower and narrower, so that all remain visible.
            dots = {"marker": "o", "markersize": 2 + 2 * width, "linewidth": width}
            colour = START_COLOURS.get(label, OTHER_KIND_COLOURS[number % len(OTHER_KIND_COLOURS)])
            axes.plot(list(line), list(line.values()), color=colour, label=label, **dots)
        axes.axhline(chance, color=INK, linewidth=0.8, linestyle=":")
        axes.annotate("guessing", (distances[0], chance), xytext=(0, 4), textcoords="offset points", color=INK)
        axes.set_xscale("log")
        axes.set_xticks(distances, [str(distance) for distance in distances])
        axes.set_xticks([], minor=True)
        axes.set_ylim(0, 104)
        set_titles(axes, kind, "steps between the symbol and the cue", "% right at the cue")
    set_legend(figure, *panels)
    figure.savefig(picture, format="png")


def draw_abilities(found: AbilityComparison, picture: Path) -> None:
    """Plot the accuracy of each network on each task as a PNG file, for the shortest and the longest rows.

    A darker cell means a higher accuracy.
    """
    lengths = found.shown_lengths
    height = 1.6 + 0.42 * len(found.networks)
    figure, panels = new_figure((1 + 5 * len(lengths), height), columns=len(lengths), sharey="row")
    for axes, length in zip(panels, lengths, strict=True):
        cells = [[found.cell(network, task, length) for task in found.tasks] for network in found.networks]
        skill = [[(one.accuracy - one.chance) / (1 - one.chance) for one in row] for row in cells]
        axes.imshow(skill, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for y, row in enumerate(cells):
            for x, one in enumerate(row):
                colour = "white" if skill[y][x] > 0.6 else INK
                axes.text(x, y, f"{one.accuracy:.0%}", ha="center", va="center", color=colour)
        axes.grid(visible=False)
        axes.set_xticks(range(len(found.tasks)), found.tasks)
        axes.set_yticks(range(len(found.networks)), found.networks)
        axes.tick_params(length=0)
        set_titles(axes, f"Right answers, rows of {length} tokens")
    figure.savefig(picture, format="png")


def draw_accuracy(record: PositionsRecord, picture: Path) -> None:
    """Plot the accuracy and the fraction of exact continuations against the position, as a PNG file.

    The length of the longest training row is marked.
    """
    figure, (axes,) = new_figure((8, 4.2))
    positions = range(1, len(record.right) + 1)
    exact = [float("nan") if value is None else 100 * value for value in record.exact]
    axes.plot(positions, [100 * value for value in record.right], color=PALE, linewidth=1.6, label="next token right")
    axes.plot(positions, exact, color=BLUE, linewidth=2.2, label=f"all right since token {record.given_tokens}")
    axes.axvline(record.longest_trained, color=RED, linewidth=1.2, linestyle="--")
    place = (record.longest_trained, 4)
    axes.annotate("longest row\nin training", place, xytext=(6, 0), textcoords="offset points", color=RED)
    axes.set_ylim(0, 104)
    set_legend(figure, axes)
    set_titles(axes, "Right guesses by position, test split", "position in the row, tokens", "% of the rows")
    figure.savefig(picture, format="png")


def nonzero(norms: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return the norms that are not zero, which a logarithmic scale can show, and their distances."""
    distances = [distance for distance, norm in enumerate(norms) if norm > 0]
    return distances, [norms[distance] for distance in distances]


def set_decades(axes: Any, norms: Sequence[float]) -> None:
    """Set a logarithmic axis that covers all norms above FLOOR with whole powers of ten."""
    from matplotlib.ticker import NullFormatter

    held = [norm for norm in norms if norm > FLOOR and math.isfinite(norm)] or [1.0]
    axes.set_yscale("log")
    axes.set_ylim(10.0 ** math.floor(math.log10(min(held))), 10.0 ** math.ceil(math.log10(max(held)) + 0.01))
    axes.yaxis.set_minor_formatter(NullFormatter())
