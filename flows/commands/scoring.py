"""score: what many texts cost under a model, a row each."""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from flows.commands.parser import MODEL, Commands, Say, add
from rnnlm.home import Home
from rnnlm.presets import validate_section
from rnnlm.scoring.scoring_config import ScoringConfig


class Setting(NamedTuple):
    """--<option> sets a field of ScoringConfig that is a number or a text."""

    option: str
    field: str
    help: str


SETTINGS = (
    Setting("input", "input", "texts: a file, folder or glob (text, csv, tsv, jsonl, Parquet), or a DuckDB file"),
    Setting("output", "output", "FILE.parquet, or FILE.duckdb for its table `scores`"),
    Setting("model", "model", f"{MODEL}; default: the champion, where there is one"),
    Setting("query", "query", "for a DuckDB file: a select whose rows are the documents; end it with an order by"),
    Setting("column", "column", "the text's, in a table or query"),
    Setting("id-column", "id_column", "of the same table, for the output's column id"),
    Setting("surprising", "surprising_tokens", "most surprising tokens kept of each document"),
    Setting("batch-size", "batch_size", "rows at once"),
    Setting("shard-documents", "shard_documents", "documents a shard, what a killed run does again at most"),
    Setting("drift-threshold", "drift_threshold", "distance above which a Prefect event is raised"),
)


def add_commands(commands: Commands) -> None:
    sub = add(commands, "score", score, "what many texts cost under a model: filter them, rank them, watch for drift")
    for setting in SETTINGS:
        field = ScoringConfig.model_fields[setting.field]
        kind: Callable[[str], Any] = int if field.annotation is int else float if field.annotation is float else str
        default = "" if field.is_required() or field.default is None else f"; default: {field.default}"
        sub.add_argument(
            f"--{setting.option}",
            dest=setting.field,
            type=kind,
            required=field.is_required(),
            help=f"{setting.help}{default}",
        )
    for name, text in (
        ("document", "what a document of a text file is, and of the validation text compared with; default: line"),
        ("device", "default: auto"),
        ("precision", "of products with rare classes; default: auto, bfloat16 where the processor has it"),
    ):
        sub.add_argument(f"--{name}", choices=get_args(ScoringConfig.model_fields[name].annotation), help=text)
    sub.add_argument("--no-text", dest="keep_text", action="store_const", const=False, help="leave the texts out")
    sub.add_argument("--force", action="store_const", const=True, help="score again although the output is there")


def score(options: argparse.Namespace, home: Home, say: Say) -> None:
    config = validate_section("scoring", ScoringConfig, given(options))
    from rnnlm.scoring.input_files import find_inputs
    from rnnlm.scoring.scoring_model import find_model

    find_inputs(config)  # refused here if they cannot be right: before a server is started for them
    find_model(home, config.model)
    from flows.operations.flow_runner import run_flow
    from flows.score_flow import score_flow
    from rnnlm.reports.scoring_page import scoring_text

    scored = run_flow(home, score_flow, config)
    say(scoring_text(config, scored.scoring, scored.drift), scored.model_dump(mode="json"))


def given(options: argparse.Namespace) -> dict[str, Any]:
    """What was given; the rest keeps the fields' defaults."""
    values = {field: getattr(options, field, None) for field in ScoringConfig.model_fields}
    return {field: value for field, value in values.items() if value is not None}
