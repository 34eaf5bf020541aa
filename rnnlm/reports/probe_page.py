"""What people read about probes, of a run and of fresh networks: the picture, and below it some of its figures."""

from typing import Any

from rnnlm.probes.probe_records import EchoComparison, GradientComparison, GradientCurve
from rnnlm.records import GradientFlowRecord, PositionsRecord
from rnnlm.text_layout import Rows, columns, markdown_lines, markdown_table, picture_report

SHOWN_DISTANCES = (1, 10, 50)


def gradient_report(record: GradientFlowRecord) -> str:
    """The picture, and below it how much of the gradient is left at some distances."""
    distances = [distance for distance in (1, 5, 10, 20, 50) if distance < len(record.norms[0])]
    heads = ["layer", *(f"{distance} back" for distance in distances)]
    lines = [
        [layer, *(f"{norms[distance] / norms[0]:.2g}" if norms[0] else "-" for distance in distances)]
        for layer, norms in enumerate(record.norms, start=1)
    ]
    said = "The gradient's norm relative to that at the loss's own step."
    return "\n\n".join([picture_report("Gradient flow", record.picture), said, markdown_lines(heads, lines)])


def positions_report(record: PositionsRecord) -> str:
    """The picture, and below it a table of some positions, the training length among them."""
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
    said = "Shares are of the rows that reach the position; `<eos>` is not counted."
    return "\n\n".join([picture_report("Right guesses by position", record.picture), said, table])


def gradients_text(found: GradientComparison) -> str:
    """What `rnnlm probe gradients` prints."""
    return "\n".join([*columns(gradient_rows(found)), "", f"picture  {found.picture}"])


def gradient_comparison_report(found: GradientComparison) -> str:
    said = "`norm`: of the gradient at the loss's own step, top layer; beside it, what is left of it further back."
    picture = picture_report("Gradients of networks of each kind", found.picture)
    return "\n\n".join([picture, said, markdown_table(gradient_rows(found))])


def gradient_rows(found: GradientComparison) -> Rows:
    return [gradient_row(curve) for curve in found.curves]


def gradient_row(curve: GradientCurve) -> dict[str, Any]:
    """Of the top layer: the norm at the loss's own step, and what is left of it further back."""
    relative = curve.relative
    left = {
        f"{distance} back": f"{relative[distance]:.2e}" if distance < len(relative) else "-"
        for distance in dict.fromkeys((*SHOWN_DISTANCES, len(relative) - 1))
    }
    steps = {"network": f"{curve.nonlinearity}, {curve.start}", "steps": curve.trained_steps}
    return {**steps, "norm": f"{curve.norms[-1][0]:.2e}", **left}


def echo_text(found: EchoComparison) -> str:
    """What `rnnlm probe echo` prints."""
    return "\n".join([*columns(echo_rows(found)), guessing(found), "", f"picture  {found.picture}"])


def echo_report(found: EchoComparison) -> str:
    said = f"The share of rows that are right at the cue, by steps back to the symbol; {guessing(found)}."
    picture = picture_report("What networks of each kind remember", found.picture)
    return "\n\n".join([picture, said, markdown_table(echo_rows(found))])


def echo_rows(found: EchoComparison) -> Rows:
    """A row a network, a column a distance: the share right at the cue."""
    rows: dict[str, dict[str, Any]] = {}
    for score in found.scores:
        name = f"{score.nonlinearity}, {score.initialization}"
        rows.setdefault(name, {"network": name})[f"{score.distance} back"] = f"{score.accuracy:.0%}"
    return list(rows.values())


def guessing(found: EchoComparison) -> str:
    return f"guessing gives {1 / found.settings['symbols']:.1%}"
