"""Reports on probes of a run and of fresh networks: the plot, and some of its figures."""

from typing import Any

from rnnlm.display.text_layout import (
    TableRows,
    columns,
    markdown_lines,
    markdown_table,
    markdown_tables,
    picture_report,
    text_tables,
)
from rnnlm.lab.probes.probe_records import LEARNED, AbilityComparison, EchoComparison, GradientComparison, GradientCurve
from rnnlm.storage.records import GradientFlowRecord, PositionsRecord

SHOWN_DISTANCES = (1, 10, 50)


def gradient_report(record: GradientFlowRecord) -> str:
    """The plot, and the share of the gradient left at some distances."""
    distances = [distance for distance in (1, 5, 10, 20, 50) if distance < len(record.norms[0])]
    heads = ["layer", *(f"{distance} back" for distance in distances)]
    lines = [
        [layer, *(f"{norms[distance] / norms[0]:.2g}" if norms[0] else "-" for distance in distances)]
        for layer, norms in enumerate(record.norms, start=1)
    ]
    note = "The gradient's norm relative to that at the loss's own step."
    return "\n\n".join([picture_report("Gradient flow", record.picture), note, markdown_lines(heads, lines)])


def positions_report(record: PositionsRecord) -> str:
    """The plot, and a table of some positions, including the training length."""
    last = len(record.right)
    trained = record.longest_trained
    chosen = {1, record.given_tokens + 1, trained, 2 * trained, 3 * trained, last}
    lines = []
    for position in sorted(position for position in chosen if 1 <= position <= last):
        exact = record.exact[position - 1]
        cells = [
            f"{position}{' (longest in training)' if position == trained else ''}",
            f"{record.rows[position - 1]:,}",
            f"{record.right[position - 1]:.1%}",
            "given" if exact is None else f"{exact:.1%}",
        ]
        lines.append(cells)
    table = markdown_lines(("position", "rows", "next token right", "all right so far"), lines)
    note = "Shares are of the rows that reach the position; `<eos>` is not counted."
    return "\n\n".join([picture_report("Right guesses by position", record.picture), note, table])


def gradients_text(found: GradientComparison) -> str:
    """The output of `rnnlm probe gradients`."""
    return "\n".join([*columns(gradient_rows(found)), "", f"picture  {found.picture}"])


def gradient_comparison_report(found: GradientComparison) -> str:
    note = "`norm`: of the gradient at the loss's own step, top layer; beside it, the share left further back."
    picture = picture_report("Gradients of networks of each kind", found.picture)
    return "\n\n".join([picture, note, markdown_table(gradient_rows(found))])


def gradient_rows(found: GradientComparison) -> TableRows:
    return [gradient_row(curve) for curve in found.curves]


def gradient_row(curve: GradientCurve) -> dict[str, Any]:
    """The top layer's norm at the loss's own step, and the share left further back."""
    relative = curve.relative
    last = len(relative) - 1
    shown = [*(distance for distance in SHOWN_DISTANCES if distance < last), last]
    left = {f"{distance} back": f"{relative[distance]:.2e}" for distance in shown}
    steps = {"network": f"{curve.nonlinearity}, {curve.start}", "steps": curve.trained_steps}
    return {**steps, "norm": f"{curve.norms[-1][0]:.2e}", **left}


def echo_text(found: EchoComparison) -> str:
    """The output of `rnnlm probe echo`."""
    return "\n".join([*columns(echo_table(found)), guessing(found), "", f"picture  {found.picture}"])


def echo_report(found: EchoComparison) -> str:
    note = f"The share of rows that are right at the cue, by steps back to the symbol; {guessing(found)}."
    picture = picture_report("What networks of each kind remember", found.picture)
    return "\n\n".join([picture, note, markdown_table(echo_table(found))])


def echo_table(found: EchoComparison) -> TableRows:
    """The share right at the cue: one row per network, one column per distance."""
    rows: dict[str, dict[str, Any]] = {}
    for score in found.scores:
        name = f"{score.nonlinearity}, {score.initialization}"
        rows.setdefault(name, {"network": name})[f"{score.distance} back"] = f"{score.accuracy:.0%}"
    return list(rows.values())


def guessing(found: EchoComparison) -> str:
    return f"guessing gives {1 / found.settings['symbols']:.1%}"


def abilities_text(found: AbilityComparison) -> str:
    """The output of `rnnlm probe abilities`."""
    lines = text_tables(ability_tables(found))[1:]
    return "\n".join([*lines, "", LEGEND, "", f"picture  {found.picture}", f"table    {found.table}"])


def abilities_report(found: AbilityComparison) -> str:
    picture = picture_report("What networks of each kind learn", found.picture)
    return "\n\n".join([picture, LEGEND, *markdown_tables(ability_tables(found))])


LEGEND = f"Means over seeds; 1/3: one of three seeds gets at least {LEARNED:.0%} right."


def ability_tables(found: AbilityComparison) -> dict[str, TableRows]:
    """By length of the rows: a row per network, a column per task, the mean accuracy and how many seeds learned it."""
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
