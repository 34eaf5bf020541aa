"""Reports on the probes of a run and of untrained networks, each with a plot and a table."""

from typing import Any

from rnnlm.display.text_layout import TableRows
from rnnlm.extensions.probes.probe_records import (
    LEARNED,
    AbilityComparison,
    EchoComparison,
    GradientComparison,
    GradientCurve,
    GradientFlowRecord,
    PositionsRecord,
)
from rnnlm.reports.page import Page

SHOWN_DISTANCES = (1, 10, 50)


def gradient_report(record: GradientFlowRecord) -> str:
    """Return a Markdown report with a plot and the relative gradient norms of each layer at some distances."""
    distances = [distance for distance in (1, 5, 10, 20, 50) if distance < len(record.norms[0])]
    rows = [
        {"layer": layer} | {f"{back} back": f"{norms[back] / norms[0]:.2g}" if norms[0] else "-" for back in distances}
        for layer, norms in enumerate(record.norms, start=1)
    ]
    note = "The gradient's norm at earlier steps, relative to its norm at the step of the loss."
    return Page("Gradient flow", pictures={"": record.picture}, note=note, tables={"": rows}).markdown()


def positions_report(record: PositionsRecord) -> str:
    """Return a Markdown report with a plot and the accuracy at some positions."""
    trained, last = record.longest_trained, len(record.right)
    chosen = {1, record.given_tokens + 1, trained, 2 * trained, 3 * trained, last}
    rows = [
        {
            "position": f"{position}{' (longest in training)' if position == trained else ''}",
            "rows": f"{record.rows[position - 1]:,}",
            "next token right": f"{record.right[position - 1]:.1%}",
            "all right so far": "given" if (exact := record.exact[position - 1]) is None else f"{exact:.1%}",
        }
        for position in sorted(position for position in chosen if 1 <= position <= last)
    ]
    note = "The fractions refer to the rows that reach the position; `<eos>` is not counted."
    return Page("Right guesses by position", pictures={"": record.picture}, note=note, tables={"": rows}).markdown()


def gradients_page(found: GradientComparison) -> Page:
    return Page(
        title="Gradients of networks of each kind",
        tables={"": [gradient_row(curve) for curve in found.curves]},
        note="`norm` is the norm of the gradient at the step of the loss, in the top layer. The next columns are the "
        "fractions of it that are left further back.",
        pictures={"": found.picture},
    )


def gradient_row(curve: GradientCurve) -> dict[str, Any]:
    """Return the top layer's gradient norm at distance 0, and its norms at larger distances relative to it."""
    relative = curve.relative
    last = len(relative) - 1
    shown = [*(distance for distance in SHOWN_DISTANCES if distance < last), last]
    left = {f"{distance} back": f"{relative[distance]:.2e}" for distance in shown}
    steps = {"network": f"{curve.nonlinearity}, {curve.start}", "steps": curve.trained_steps}
    return {**steps, "norm": f"{curve.norms[-1][0]:.2e}", **left}


def echo_page(found: EchoComparison) -> Page:
    """Return a report of how often networks recall a symbol, with rows for networks and columns for distances."""
    rows: dict[str, dict[str, Any]] = {}
    for score in found.scores:
        rows.setdefault(score.network, {"network": score.network})[f"{score.distance} back"] = f"{score.accuracy:.0%}"
    return Page(
        title="What networks of each kind remember",
        tables={"": list(rows.values())},
        note="The share of rows whose symbol is recalled, by the number of steps back to the symbol; guessing gives "
        f"{1 / found.settings['symbols']:.1%}.",
        pictures={"": found.picture},
    )


def abilities_page(found: AbilityComparison) -> Page:
    return Page(
        title="What networks of each kind learn",
        tables=ability_tables(found),
        note=f"Means over seeds; 1/3: one of three seeds gets at least {LEARNED:.0%} right.",
        pictures={"": found.picture},
        files={"table": found.table},
    )


def ability_tables(found: AbilityComparison) -> dict[str, TableRows]:
    """Return a table for each length of rows, with the mean accuracy of each network on each task.

    Each cell also has the number of seeds for which the network learned the task.
    """
    trained = found.settings["trained_length"]
    tables = {}
    for length in found.shown_lengths:
        title = f"right answers in rows of {length} tokens; in training: up to {trained}"
        tables[title] = [
            {"network": network} | {task: ability_cell(found, network, task, length) for task in found.tasks}
            for network in found.networks
        ]
        network = found.networks[0]
        chances = {task: f"{found.cell(network, task, length).chance:.0%}" for task in found.tasks}
        tables[title].append({"network": "guessing", **chances})
    return tables


def ability_cell(found: AbilityComparison, network: str, task: str, length: int) -> str:
    cell = found.cell(network, task, length)
    return f"{cell.accuracy:.0%} {cell.learned}/{cell.seeds}"
