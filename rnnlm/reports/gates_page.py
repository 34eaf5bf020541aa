"""The report on the checks before training."""

from rnnlm.display.text_layout import TableRows, markdown_table
from rnnlm.registry.data_gates import GatesRecord


def gates_report(gates: GatesRecord) -> str:
    """Markdown: one row per gate, with its thresholds."""
    rows: TableRows = [
        {
            "gate": result.gate,
            "outcome": result.outcome,
            "measured": result.text,
            "warns above": threshold(result.warn_at),
            "stops above": threshold(result.stop_at),
        }
        for result in gates.results
    ]
    title = "Checks before training" + (": stopped, the champion stays" if gates.with_outcome("stopped") else "")
    return f"## {title}\n\n{markdown_table(rows)}"


def threshold(share: float | None) -> str:
    return "never" if share is None else f"{share:.0%}"
