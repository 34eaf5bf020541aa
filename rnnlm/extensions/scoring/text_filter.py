"""Keep or drop documents by their scores, and write them with the same file names, formats and columns.

The scores are computed in the same way as by `rnnlm score` and stored in NAME.scores.parquet next to the output folder
NAME. They are reused, so filtering with another threshold takes only seconds, and an interrupted run continues. Each
output file is written atomically.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import CaseExpression, ColumnExpression, ConstantExpression, SQLExpression

from rnnlm.corpora.table_files import JSON_ADVICE, parse_json, without_long_lines
from rnnlm.corpora.text_encoding import single_lines
from rnnlm.display.plots import PALE, RED, new_figure, set_titles
from rnnlm.display.text_layout import TableRows
from rnnlm.errors import ConfigError
from rnnlm.extensions.scoring.bulk_scoring import ScoringRecord, work_folder
from rnnlm.extensions.scoring.document_scores import SCORES_SCHEMA
from rnnlm.extensions.scoring.drift import PLOTTED_LEVELS
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.filtered_files import OutputFolder, Verdict, filter_file, output_folder
from rnnlm.extensions.scoring.input_files import InputFile, file_reader, find_inputs
from rnnlm.extensions.scoring.reference_scores import find_reference
from rnnlm.extensions.scoring.score_output import reading_scores
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.home import Home, atomic_file, expanded
from rnnlm.storage.records import Record
from rnnlm.storage.sql_statements import literal, statement

HISTOGRAM_BINS = 40
EXAMPLES_A_SIDE = 10  # The number of examples on each side of the threshold in the report.
NOTHING_TO_SCORE = "nothing to score"
VERDICTS_AT_ONCE = 10_000
NO_VERDICTS: tuple[str, Iterator[Verdict]] = ("", iter(()))


class FilterRecord(Record):
    """The result of filtering."""

    scoring: ScoringRecord
    output: Path | None = None  # The output folder, or None if there was nothing to filter.
    dropped: Path | None = None
    rules: tuple[str, ...] = ()  # SQL conditions that hold for each kept document.
    counts: TableRows = []  # The rows have the columns reason (None for kept documents), documents and bytes.
    kept_examples: TableRows = []  # The rows have the columns source, place, bits_per_byte, reason and text.
    dropped_examples: TableRows = []
    # The rows have the columns bin, low, scored (kept documents) and reference (dropped documents).
    bins: TableRows = []
    picture: Path | None = None


def scoring_of(config: FilterConfig) -> ScoringConfig:
    """Return the configuration with which the texts are scored before they are filtered."""
    folder = expanded(config.output)
    settings = config.model_dump(include=set(ScoringConfig.model_fields))
    return ScoringConfig(**settings | {"output": str(folder.with_name(f"{folder.name}.scores.parquet"))})


def check_filter(config: FilterConfig) -> None:
    """Raise an error for a wrong configuration, because filtering would otherwise fail after hours of scoring.

    Raise ConfigError if the condition is not valid SQL, if an output folder is the folder of the input, or if a JSON
    file contains a list.
    """
    empty = SCORES_SCHEMA.empty_table()
    if config.keep is not None:
        try:
            with duckdb.connect() as connection:
                connection.from_arrow(empty).filter(SQLExpression(config.keep)).fetchall()
        except duckdb.Error as error:
            raise ConfigError(
                f"--keep {config.keep!r}: {str(error).splitlines()[0][:200]};\n"
                f"expected a condition on {', '.join(empty.column_names)}"
            ) from error
    files = find_inputs(config).files
    output_folders(config, files)
    for file in files:
        if file.kind == "jsonl" and not has_an_object_per_line(file):
            raise ConfigError(
                f"{file.label}: its first line is not a JSON object, and a filter copies lines;\n"
                "write one object per line: jq -c . for objects, jq -c '.[]' for a list"
            )


def has_an_object_per_line(file: InputFile) -> bool:
    """Return True if the first line that is not blank is a JSON object, or if all lines are blank."""
    with file_reader(file) as reader:
        lines = single_lines(without_long_lines(reader.pieces_of_file(reader.files[0]), file.label, *JSON_ADVICE))
        line = next((line for line in lines if not line.isspace()), "{}")
    try:
        return isinstance(parse_json(line), dict)
    except (ValueError, RecursionError):
        return False


def output_folders(config: FilterConfig, files: Sequence[InputFile]) -> tuple[OutputFolder, OutputFolder | None]:
    """Return the folder of the kept documents, and the folder of the dropped documents or None."""
    dropped = output_folder(config.dropped, files, "--dropped") if config.dropped else None
    return output_folder(config.output, files, "--output"), dropped


def filter_texts(home: Home, config: FilterConfig, scoring: ScoringRecord) -> FilterRecord:
    """Write the kept and the dropped documents of a scored input, with one file per input file in each folder."""
    if scoring.output is None:
        return FilterRecord(scoring=scoring)
    files = find_inputs(config).files
    kept, dropped = output_folders(config, files)
    with reading_scores(scoring.output) as connection:
        rules = find_rules(home, config, scoring, connection)
        decide(connection, rules)
        found = FilterRecord(
            scoring=scoring,
            output=kept.folder,
            dropped=dropped and dropped.folder,
            rules=rules,
            counts=table(connection, "scoring/count_decisions", {}),
            kept_examples=table(connection, "scoring/read_closest_decisions", {"kept": True, "count": EXAMPLES_A_SIDE}),
            dropped_examples=table(
                connection, "scoring/read_closest_decisions", {"kept": False, "count": EXAMPLES_A_SIDE}
            ),
            bins=count_bins(connection),
        )
        by_source = verdicts_by_source(connection)
        source, verdicts = next(by_source, NO_VERDICTS)
        for file in files:
            if source == file.label:
                filter_file(file, config, verdicts, kept, dropped)
                source, verdicts = next(by_source, NO_VERDICTS)
            else:  # The file contains no documents, so there are no verdicts.
                filter_file(file, config, iter(()), kept, dropped)
    folder = work_folder(home, scoring.key)
    home.make(folder)
    picture = folder / "filter.png"
    with atomic_file(picture) as unfinished:
        draw_decisions(found.bins, unfinished)
    return found.model_copy(update={"picture": picture})


def find_rules(
    home: Home, config: FilterConfig, scoring: ScoringRecord, connection: duckdb.DuckDBPyConnection
) -> tuple[str, ...]:
    """Return the SQL conditions that hold for each kept document. Thresholds are rounded outwards to four digits."""
    rules = [config.keep] if config.keep else []
    if config.keep_quantiles:
        reference = find_reference(home, str(scoring.model_folder), config.document)
        values = {"levels": list(config.keep_quantiles), "reference": literal(reference)}
        low, high = table(connection, "scoring/measure_reference_quantiles", values)[0]["thresholds"]
        rules.append(f"bits_per_byte between {math.floor(low * 1e4) / 1e4} and {math.ceil(high * 1e4) / 1e4}")
    if config.keep_share:
        threshold = table(connection, "scoring/measure_share", {"share": config.keep_share})[0]["threshold"] or 0.0
        rules.append(f"bits_per_byte <= {math.ceil(threshold * 1e4) / 1e4}")
    return tuple(rules)


def decide(connection: duckdb.DuckDBPyConnection, rules: tuple[str, ...]) -> None:
    """Fill the `decisions` table with the reason for dropping each document. The reason of a kept document is null."""
    reason = CaseExpression(SQLExpression("tokens = 0"), ConstantExpression(NOTHING_TO_SCORE))
    for rule in rules:
        reason = reason.when(SQLExpression(f"({rule}) is not true"), ConstantExpression(f"not {rule}"))
    columns = ("document", "source", "place", "bytes", "bits_per_byte")
    connection.execute(statement("scoring/create_decisions"))
    connection.view("scores").select(*map(ColumnExpression, columns), reason.alias("reason")).insert_into("decisions")


def verdicts_by_source(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Iterator[Verdict]]]:
    """Yield the verdicts on the documents of each file that has documents, in the order of files and documents."""
    found = connection.table("decisions").select("source", "bits_per_byte", "reason")
    batches = found.to_arrow_reader(VERDICTS_AT_ONCE)
    decided = (Verdict(*row) for batch in batches for row in zip(*map(pa.Array.to_pylist, batch.columns), strict=True))
    return groupby(decided, key=attrgetter("source"))


def count_bins(connection: duckdb.DuckDBPyConnection) -> TableRows:
    """Count kept and dropped documents by bits per byte, between the quantiles 0.005 and 0.995.

    The result is empty if no document has a score.
    """
    connection.execute(statement("scoring/create_decided_shares"))
    ends = table(connection, "scoring/measure_decided_ends", {"levels": PLOTTED_LEVELS})[0]["ends"]
    if ends is None:
        return []
    width = (ends[1] - ends[0]) / HISTOGRAM_BINS or 1 / HISTOGRAM_BINS
    return table(connection, "scoring/count_bins", {"low": ends[0], "width": width, "bins": HISTOGRAM_BINS})


def draw_decisions(bins: TableRows, picture: Path) -> None:
    """Plot a histogram of the bits per byte. The first bin includes all lower values, and the last all higher ones."""
    figure, (axes,) = new_figure((8, 3.6))
    if bins:
        width = bins[1]["low"] - bins[0]["low"]
        lows = [row["low"] for row in bins]
        kept, dropped = ([row[side] for row in bins] for side in ("scored", "reference"))
        for counts, below, colour, label in ((kept, 0, PALE, "kept"), (dropped, kept, RED, "dropped")):
            axes.bar(
                lows, counts, width, below, align="edge", color=colour, label=f"{label}, {sum(counts):,} documents"
            )
        axes.legend(frameon=False)
    set_titles(axes, "Bits per byte of the documents", "bits per byte", "documents")
    figure.savefig(picture, format="png")
