"""Run EleutherAI's evaluation harness on a model with `rnnlm lm-eval`."""

from typing import TYPE_CHECKING, Annotated, Any

from flows.commands.command import Session
from flows.commands.option_groups import fields
from flows.commands.options import Model
from rnnlm.display.text_layout import columns
from rnnlm.extensions.harness.harness_config import HarnessConfig
from rnnlm.registry.model_lookup import model_folder

if TYPE_CHECKING:
    from rnnlm.extensions.harness.harness_run import HarnessRecord

HEADING = "Measure"


def lm_eval_command(
    session: Session,
    config: Annotated[HarnessConfig, fields("tasks", "file", "limit", "fewshot", "batch_size")],
    model: Model = None,
) -> None:
    """Run EleutherAI's evaluation harness on a model (extra: lm-eval).

    rnnlm lm-eval rnnlm-python-docs --file my-text.txt
    rnnlm lm-eval rnnlm-python-docs --tasks blimp --limit 100
    """
    folder = model_folder(session.home, model)
    from rnnlm.extensions.harness.harness_run import run_harness

    record = run_harness(session.home, folder, config)
    session.print_result("\n".join(columns(harness_rows(record))), record)


def harness_rows(record: "HarnessRecord") -> list[dict[str, Any]]:
    """Return one table row per metric."""
    return [
        {
            "task": row.task,
            "metric": row.metric,
            "filter": row.filter,
            "documents": f"{row.documents:,}",
            "value": f"{row.value:.4f}",
            "std. error": "" if row.standard_error is None else f"{row.standard_error:.4f}",
        }
        for row in record.metrics
    ]
