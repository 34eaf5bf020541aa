"""The DuckDB file of an n-gram model: its path, its resource limits, its creation and its readers."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb

from rnnlm.errors import ConfigError, DatasetError
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.sequences.dataset_parts import locate_parts
from rnnlm.sequences.sql_tables import create_token_type
from rnnlm.storage.home import Home, digest_of, read_json, write_json
from rnnlm.storage.records import StageRecord
from rnnlm.storage.sql_statements import statement
from rnnlm.storage.stages import STAGE_VERSIONS, write_once

SCORES = {"kneser-ney": "ngram/view_kneser_ney_probabilities", "textbook": "ngram/view_textbook_scores"}
CREATE_TABLES = (
    *("ngram/create_ngrams", "ngram/create_openings", "ngram/create_contexts"),
    *("ngram/create_discounts", "ngram/create_vocabulary"),
)


class NgramRecord(StageRecord):
    """A trained n-gram model, which is a single DuckDB file that does not change."""

    folder: Path
    # The settings with which the model was trained. The limits of memory and threads also apply when the model is read.
    config: NgramConfig

    @property
    def database(self) -> Path:
        return self.folder / f"ngram-{self.config.method}-{self.config.order}.duckdb"


def train_once(home: Home, config: NgramConfig, source: dict[str, Any], train: Callable[[Path], None]) -> NgramRecord:
    """Return the n-gram model of `source`. If it does not exist, create it by calling train(database).

    The field `seconds` of the result is the duration of training, even if the model was trained earlier.
    """
    model = {"method": config.method, "order": config.order}
    facts = {"stage": STAGE_VERSIONS["ngram"], **model, "duckdb": version("duckdb"), **source}
    record = NgramRecord(folder=home.ngrams / digest_of(facts)[:16], config=config)

    def build(partial: Path) -> None:
        start = time.perf_counter()
        train(partial / record.database.name)
        write_json(partial / "ngram.json", {"training_seconds": time.perf_counter() - start, **facts})

    skipped = write_once(home, record.folder, build)
    seconds = read_json(record.folder / "ngram.json")["training_seconds"]
    return record.model_copy(update={"seconds": seconds, "skipped": skipped})


@contextmanager
def open_database(
    database: Path, config: NgramConfig, dataset: Path | None = None, *, spill: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection with the configured memory and threads. Raise ConfigError if the memory is insufficient.

    `dataset` is a file that is attached read-only under the name `dataset`. `spill` is a folder for temporary data. If
    it is given, the database is opened read-only. Otherwise DuckDB writes temporary data next to the file.
    """
    settings: dict[str, Any] = {
        "memory_limit": config.memory_limit,
        # The order of rows is not preserved, because it is not needed and DuckDB would buffer rows for it.
        "preserve_insertion_order": False,
    }
    if spill is not None:
        settings["temp_directory"] = str(spill)
    if config.threads is not None:
        settings["threads"] = config.threads
    with duckdb.connect(str(database), read_only=spill is not None, config=settings) as connection:
        if dataset is not None:
            if not dataset.exists():
                raise DatasetError(f"{dataset}: the file is missing; run again with --force sequences")
            # The path is quoted here, because ATTACH does not accept parameters.
            quoted = str(dataset).replace("'", "''")
            connection.execute(f"attach '{quoted}' as dataset (read_only)")
            locate_parts(connection, dataset.parent)
        try:
            yield connection
        except duckdb.OutOfMemoryException as error:
            raise ConfigError(
                f"ngram.memory_limit: {config.memory_limit} is not enough; raise --memory-limit,\n"
                "or lower --threads, because each thread needs its own memory"
            ) from error


@contextmanager
def open_model(model: NgramRecord, dataset: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a trained model read-only, with the view log_probabilities of the dataset.

    The back-off model of the textbook contains its own text, so it needs no dataset. Temporary data is written next to
    the model's folder. If the process is killed, a later call of write_once removes this data.
    """
    with (
        tempfile.TemporaryDirectory(dir=model.folder.parent, prefix=f".{model.folder.name}.spill-") as spill,
        open_database(model.database, model.config, dataset, spill=Path(spill)) as connection,
    ):
        if dataset is not None:
            connection.execute(statement("ngram/view_positions"))
        if dataset is not None or model.config.method == "textbook":
            connection.execute(statement(SCORES[model.config.method]))
        yield connection


def create_tables(connection: duckdb.DuckDBPyConnection, vocabulary_size: int) -> None:
    create_token_type(connection, vocabulary_size)
    for name in CREATE_TABLES:
        connection.execute(statement(name))
