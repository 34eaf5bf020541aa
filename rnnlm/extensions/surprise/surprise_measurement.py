"""Find the text that surprises a run's model. The results are stored once for each run.

RUN/losses contains two Parquet files with losses, the tables of the queries in sql/surprise, and plots.
"""

import shutil
from pathlib import Path
from typing import Any

import duckdb

from rnnlm.config import EvaluationConfig, PipelineConfig
from rnnlm.display.text_layout import TableRows
from rnnlm.errors import DatasetError, ModelError
from rnnlm.evaluation.token_losses import stored_nll, token_losses
from rnnlm.extensions.surprise.surprise_plots import draw_loss_by_frequency, draw_loss_by_position
from rnnlm.extensions.surprise.token_loss_files import SEQUENCES, TOKENS, write_token_losses
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.dataset_reader import StoredSplit, training_counts
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import LOSSES, DatasetRecord, Record, RunRecord, Split
from rnnlm.storage.sql_statements import literal
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import stage_key, write_once
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

SPLIT: Split = "test"
# The approximate maximum number of stored tokens, which need about 100 MB. If the split is larger, a random sample of
# its sentences is stored.
STORED_TOKENS = 10_000_000
SENTENCES_SHOWN = 10
MINIMUM_TOKENS = 5  # The smallest number of tokens in a sentence that is listed among the worst.


class SurpriseTables(Record):
    """The tables, as lists of rows. The comments at the top of the queries in sql/surprise describe their columns."""

    # The fraction of sentences that were analysed. If it is below 1, all tables describe a random sample.
    share: float = 1.0
    tokens: int
    nll_nats: float  # The sum of the losses of all tokens.
    perplexity: float
    worst_sentences: TableRows
    by_position: TableRows
    by_frequency: TableRows
    by_neighbours: TableRows


class Surprise(Record):
    """A description of the files in a run's `losses` folder."""

    run_id: str
    folder: Path  # The folder with tokens.parquet and sequences.parquet.
    split: Split
    tables: SurpriseTables
    pictures: tuple[Path, ...]
    skipped: bool  # True if the measurement was already stored.


def surprise_of_run(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, *, force: bool = False
) -> Surprise:
    """Store the token losses of the run's model on the test split, and the tables computed from them.

    If the split has more than STORED_TOKENS, only a random sample of the sentences is stored.
    """
    folder = run.folder / LOSSES
    key = stage_key("surprise", run=run.run_id, dataset=dataset.dataset_id, split=SPLIT)

    def build(partial: Path) -> None:
        nll_nats = stored_nll(home, dataset, run, SPLIT, config.batch_size)
        chunks = token_losses(StoredSplit(dataset, SPLIT), nll_nats)
        share = min(1.0, STORED_TOKENS / max(1, len(nll_nats)))
        write_token_losses(partial, chunks, SPLIT, training_counts(dataset), load_tokenizer(run.model_folder), share)
        tables = query_surprise(partial).model_copy(update={"share": share})
        mean = tables.nll_nats / tables.tokens
        draw_loss_by_position(tables.by_position, mean, partial / "loss_by_position.png")
        draw_loss_by_frequency(tables.by_frequency, mean, partial / "loss_by_frequency.png")
        write_json(partial / "surprise.json", {"key": key, "tables": tables.model_dump()})

    stored = read_json(folder / "surprise.json")
    stale = isinstance(stored, dict) and stored.get("key") != key
    skipped = write_once(home, folder, build, force=force or stale)
    return Surprise(
        run_id=run.run_id,
        folder=folder,
        split=SPLIT,
        tables=SurpriseTables(**read_json(folder / "surprise.json")["tables"]),
        pictures=tuple(sorted(folder.glob("*.png"))),
        skipped=skipped,
    )


def surprise_of_model(home: Home, model_folder: Path) -> Surprise:
    """Return the result of surprise_of_run() for the model in a folder. The dataset must be in this rnnlm home."""
    folder = model_folder.parent
    stored = RunFolder(folder)
    if not stored.facts or not stored.configuration:
        raise ModelError(
            f"{model_folder}: expected the model folder of a run, with run.json and config.json next to it.\n"
            "Give a run's folder or its id, because losses are stored with the run."
        )
    run = stored.record()
    dataset = find_dataset(home, str(inside(home.datasets, run.dataset_id)))
    if dataset is None:
        raise DatasetError(
            f"{folder}: its dataset {run.dataset_id} is not under {home.datasets};\n"
            "run rnnlm prepare with the run's settings to make it again"
        )
    return surprise_of_run(home, dataset, run, PipelineConfig.model_validate(stored.configuration).evaluation)


def query_surprise(folder: Path) -> SurpriseTables:
    """Return the tables that the queries compute from the losses in `folder`."""
    of_tokens = {"tokens": literal(folder / TOKENS)}
    worst = {"sequences": literal(folder / SEQUENCES), "count": SENTENCES_SHOWN, "minimum_tokens": MINIMUM_TOKENS}
    spilled = folder / ".spilled"
    # With a single thread, sums are always added in the same order, so that the same files give exactly the same
    # values.
    settings: dict[str, Any] = {"memory_limit": "512MiB", "temp_directory": str(spilled), "threads": 1}
    with duckdb.connect(config=settings) as connection:
        (totals,) = table(connection, "surprise/measure_split", of_tokens)
        by = {
            name.removeprefix("surprise/"): table(connection, name, of_tokens)
            for name in ("surprise/by_position", "surprise/by_frequency", "surprise/by_neighbours")
        }
        tables = SurpriseTables(**totals, worst_sentences=table(connection, "surprise/worst_sentences", worst), **by)
    shutil.rmtree(spilled, ignore_errors=True)
    return tables
