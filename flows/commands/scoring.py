"""Score texts with a model, and use the scores: score, filter, pairs and rescore."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.command import FlowSession, Session
from flows.commands.option_groups import fields
from flows.commands.options import MODEL_HELP, Model, complete_models
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.registry.model_lookup import model_folder

HEADING = "Measure"


def score_command(
    session: FlowSession,
    config: Annotated[
        ScoringConfig,
        fields(
            *("input", "output", "model", "query", "column", "id_column", "quoting", "encoding", "document"),
            *("top", "batch_size", "shard_documents", "device", "precision", "drift_threshold", "force"),
            *("processes", "engine", "ray_address"),
            surprising="surprising_tokens",
            no_text="keep_text",
        ),
    ],
) -> None:
    """Score many texts, to rank them, find strange ones or detect drift.

    rnnlm score --input 'inbox/*.txt' --output scores.parquet
    rnnlm score --input app.log --top 20
    """
    from rnnlm.extensions.scoring.input_files import find_inputs

    # Errors in the input are reported here, before torch is imported and a Prefect server is started.
    find_inputs(config)
    model_folder(session.home, config.model)
    scored = session.run_flow("flows.scoring_flow:score_flow", config)
    from rnnlm.extensions.scoring.scoring_page import scoring_page

    session.print_result(scoring_page(config, scored).text(), scored)


def filter_command(
    session: FlowSession,
    config: Annotated[
        FilterConfig,
        fields(
            *("input", "output", "dropped", "keep", "keep_quantiles", "keep_share", "model"),
            *("column", "id_column", "quoting", "encoding", "document"),
            *("batch_size", "shard_documents", "device", "precision", "force"),
            *("processes", "engine", "ray_address"),
        ),
    ],
) -> None:
    """Keep or drop texts by their scores.

    Kept documents are written with their bits per byte, to files of the same names, formats and columns.

    rnnlm filter --input 'crawl/*.jsonl.gz' --keep 'bits_per_byte < 3' --output kept --dropped dropped
    rnnlm filter --input texts.txt --keep-share 0.8 --output kept
    """
    from rnnlm.extensions.scoring.text_filter import check_filter

    check_filter(config)
    model_folder(session.home, config.model)
    found = session.run_flow("flows.scoring_flow:filter_flow", config)
    from rnnlm.extensions.scoring.filter_page import filter_page

    session.print_result(filter_page(config, found).text(), found)


def pairs_command(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="File, folder or glob with pairs of sentences: JSON Lines, csv, tsv or Parquet."
        ),
    ],
    model: Model = None,
    good: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the good sentence.")] = "sentence_good",
    bad: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the bad sentence.")] = "sentence_bad",
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the group of a pair. Default: UID or field, as in BLiMP, or the file's name if there is "
            "neither.",
        ),
    ] = None,
) -> None:
    """Measure how often a model prefers the good sentence of a minimal pair.

    A pair is right if the good sentence has the higher probability. Ties are wrong. BLiMP's files can be read directly.

    rnnlm pairs blimp/data rnnlm-python-docs
    rnnlm pairs pairs.csv --good right --bad wrong --group topic
    """
    from rnnlm.display.text_layout import columns
    from rnnlm.extensions.scoring.batch_scorer import batch_scorer
    from rnnlm.extensions.scoring.minimal_pairs import score_pairs

    found = score_pairs(batch_scorer(model), source, good, bad, group)
    rows: list[dict[str, Any]] = [
        {
            "group": one.group,
            "pairs": f"{one.pairs:,}",
            "accuracy": f"{one.accuracy:.1%}",
            "95 % interval": f"{one.low:.1%} to {one.high:.1%}",
            "shorter is right": f"{one.shorter_right / one.pairs:.1%}",
        }
        for one in (*found.groups, found.total)
    ]
    session.print_result("\n".join([f"model  {found.model}", "", *columns(rows)]), found)


def rescore_command(
    session: Session,
    lists: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="JSON Lines, csv, tsv or Parquet file with the columns id, text and score."
        ),
    ],
    weight: Annotated[
        float, typer.Option(metavar="N", help="Factor by which the model's natural log-probability is multiplied.")
    ],
    model: Annotated[str | None, typer.Option(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_models)] = None,
) -> None:
    """Choose the best text of each n-best list, with a model's help.

    Rows with the same id form a list. For each id, the text with the highest score + weight × log-probability is
    printed on one line. Scores are in nats, and higher is better. Negate the costs of a recognizer to get scores.

    rnnlm rescore nbest.jsonl --weight 0.5 --model rnnlm-python-docs
    """
    from rnnlm.extensions.scoring.batch_scorer import batch_scorer
    from rnnlm.extensions.scoring.nbest import rescore_lists

    found = rescore_lists(batch_scorer(model), lists, weight)
    session.print_result("\n".join(f"{one.id}\t{one.text}" for one in found), found)
