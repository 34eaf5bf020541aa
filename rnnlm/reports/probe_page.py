"""Reports on probes of a run and of fresh networks: the plot, and some of its figures."""

from typing import Any

from rnnlm.probes.probe_records import EchoComparison, GradientComparison, GradientCurve
from rnnlm.records import GradientFlowRecord, PositionsRecord
from rnnlm.text_layout import TableRows, columns, markdown_lines, markdown_table, picture_report

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
    left = {
        f"{distance} back": f"{relative[distance]:.2e}" if distance < len(relative) else "-"
        for distance in dict.fromkeys((*SHOWN_DISTANCES, len(relative) - 1))
    }
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
