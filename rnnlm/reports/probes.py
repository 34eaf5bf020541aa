"""What people read about a run's probes: the picture, and below it some of its figures."""

from rnnlm.records import GradientFlowRecord, PositionsRecord
from rnnlm.reports.layout import markdown_lines, picture_report


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
    return "\n\n".join([picture_report("Right guesses by position", record.picture), table])
