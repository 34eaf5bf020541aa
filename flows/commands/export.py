"""export, lm-eval: our models in other people's programs."""

import argparse
from pathlib import Path
from typing import Any

from flows.commands.models import listen
from flows.commands.parser import MODEL, Commands, Say, add
from rnnlm.errors import ConfigError
from rnnlm.home import Home
from rnnlm.records import HarnessRecord

TASKS = "of the harness, separated by commas, or YAML files of tasks; their data may have to be downloaded"


def add_commands(commands: Commands) -> None:
    sub = add(commands, "export", export, "a model as a file for another runtime (extra: onnx)")
    sub.add_argument("model", metavar="MODEL", help=MODEL)
    sub.add_argument("--to", choices=("onnx",), default="onnx", help="default: onnx")
    sub.add_argument("--output", type=Path, default=Path("onnx/model.onnx"), help="default: onnx/model.onnx")

    sub = add(commands, "lm-eval", lm_eval, "EleutherAI's harness on a model (extra: lm-eval)")
    sub.add_argument("model", metavar="MODEL", help=MODEL)
    sub.add_argument("--tasks", default="", metavar="TASK,…", help=TASKS)
    sub.add_argument("--file", help="measure bits per byte and perplexities of this text, whole")
    sub.add_argument("--limit", type=float, help="documents of each task; below 1, a share of them")
    sub.add_argument("--fewshot", type=int, help="examples before each question; default: what the task says")
    sub.add_argument("--batch-size", type=int, default=64, help="texts read together; default: 64")


def export(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    from rnnlm.models.onnx_graph import export_onnx
    from rnnlm.registry.model_lookup import model_folder

    record = export_onnx(model_folder(home, options.model), options.output)
    beside = f"{record.tokenizer.name} and {record.special_tokens.name}"
    text = (
        f"{record.file}: {record.file_bytes:,} bytes; {beside} beside it\n"
        f"checked in onnxruntime: logits within {record.largest_difference:.1e} of torch's"
    )
    say(text, record.model_dump(mode="json"))


def lm_eval(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    tasks = [task.strip() for task in options.tasks.split(",") if task.strip()]
    if not tasks and options.file is None:
        raise ConfigError("lm-eval: give --tasks NAME,… or --file PATH, or both")
    if options.limit is not None and options.limit <= 0:
        raise ConfigError(f"--limit {options.limit:g}: expected a number of documents, or a share of them above 0")
    for option, value, least in (("--batch-size", options.batch_size, 1), ("--fewshot", options.fewshot, 0)):
        if value is not None and value < least:
            raise ConfigError(f"{option} {value}: expected {least} or more")
    from rnnlm.harness.harness_run import run_harness
    from rnnlm.registry.model_lookup import model_folder
    from rnnlm.text_layout import columns

    record = run_harness(
        home,
        model_folder(home, options.model),
        tasks,
        options.file,
        limit=options.limit,
        fewshot=options.fewshot,
        batch_size=options.batch_size,
    )
    say("\n".join(columns(harness_rows(record))), record.model_dump(mode="json"))


def harness_rows(record: HarnessRecord) -> list[dict[str, Any]]:
    """One row a figure."""
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
