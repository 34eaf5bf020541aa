"""Write shards of scores atomically to a Parquet file, or to the `scores` table of a DuckDB file.

The output also contains its provenance, by which repeated scoring is recognized and skipped.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.corpora.source_names import WILDCARDS
from rnnlm.errors import ConfigError, HomeError
from rnnlm.extensions.scoring.document_scores import SCORES_SCHEMA
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.contained_paths import LONGEST_PART_BYTES
from rnnlm.storage.home import atomic_file, expanded, partial_beginning, remove_partials
from rnnlm.storage.sql_statements import literal, statement

PROVENANCE = b"rnnlm"  # The key of the provenance in the metadata of a Parquet file.
SCORES_SETTINGS: dict[str, Any] = {"memory_limit": "512MiB", "threads": 1, "preserve_insertion_order": True}
# Columns with many repeated values, which are dictionary-encoded in Parquet.
REPEATED_TEXTS = ["source", "surprising.list.element.token"]
Provenance = dict[str, Any]


def check_output(output: Path, config: ScoringConfig, inputs: list[Path]) -> None:
    """Raise an error if the output cannot be written, because scoring would then fail after hours of work.

    Raise HomeError if the path is not writable, and ConfigError if writing would replace an input or the table of
    another program.
    """
    folder = expanded(output).resolve().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(output, error) from error
    if len(os.fsencode(output.name)) > LONGEST_PART_BYTES:
        raise HomeError(f"{output}: its name has more than {LONGEST_PART_BYTES} bytes; give a shorter one (--output)")
    if "\\" in str(output) and (output.suffix == ".duckdb" or WILDCARDS & set(str(output))):
        raise HomeError(f"{output}: DuckDB interprets a backslash as a folder separator; give another name (--output)")
    if not os.access(folder, os.W_OK):
        raise HomeError(f"{output}: its folder is not writable; give another scoring.output (--output)")
    if config.query is None and output in inputs:
        raise ConfigError(
            f"scoring.output: {output} is one of the inputs and would be lost; give another file (--output)"
        )
    if output.suffix == ".duckdb" and output.is_file():
        with connected(output) as connection:
            refuse_foreign_table(connection, output)
            if config.query is not None and output in inputs and "scores" in connection.get_table_names(config.query):
                raise ConfigError(
                    f"scoring.output: the query reads the table scores of {output}, which its result would replace;\n"
                    "give another file (--output)"
                )


def refuse_foreign_table(connection: duckdb.DuckDBPyConnection, output: Path) -> None:
    """Raise ConfigError if the database has a table or a view named `scores` that rnnlm did not write."""
    tables = {name for (name,) in connection.execute(statement("scoring/read_table_names")).fetchall()}
    if "scores" in tables and "scores_provenance" not in tables:
        raise ConfigError(
            f"scoring.output: {output} has a table named scores that rnnlm score did not make "
            "and that would be replaced;\n"
            "give another file (--output), or rename the table"
        )


def write_output(output: Path, shards: list[Path], provenance: Provenance) -> None:
    """Write all shards in order. An existing file or table is replaced.

    The caller must hold the output's lock, because partial files of a killed run are removed.
    """
    remove_partials(output)
    try:
        if output.suffix == ".parquet":
            write_parquet(output, shards, provenance)
        else:
            write_database(output, shards, provenance)
    except OSError as error:
        raise unwritable(output, error) from error


def write_parquet(output: Path, shards: list[Path], provenance: Provenance) -> None:
    """Write the shards to a Parquet file with one row group per shard."""
    schema = SCORES_SCHEMA.with_metadata({PROVENANCE: json.dumps(provenance, sort_keys=True)})
    with (
        atomic_file(output) as partial,
        pq.ParquetWriter(partial, schema, compression="zstd", use_dictionary=REPEATED_TEXTS) as writer,
    ):
        for shard in shards:
            writer.write_table(read_shard(shard).replace_schema_metadata(schema.metadata))


def write_database(output: Path, shards: list[Path], provenance: Provenance) -> None:
    """Write the scores in one transaction, so that an interruption leaves the file unchanged.

    Other tables of the database are not changed.
    """
    with connected(output, read_only=False) as connection:
        refuse_foreign_table(connection, output)
        connection.begin()
        connection.execute(statement("scoring/create_scores"))
        for shard in shards:
            connection.execute(statement("scoring/insert_scores"), {"shard": literal(shard)})
        connection.execute(statement("scoring/create_provenance"))
        connection.execute(
            statement("scoring/insert_provenance"), {"provenance": json.dumps(provenance, sort_keys=True)}
        )
        connection.commit()


def read_provenance(output: Path) -> Provenance | None:
    """Return the provenance of an output, or None if rnnlm has not written it."""
    if not output.is_file():
        return None
    try:
        if output.suffix == ".parquet":
            value = (pq.read_schema(output).metadata or {}).get(PROVENANCE)
            return None if value is None else json.loads(value)
        with connected(output) as connection:
            row = connection.execute(statement("scoring/read_provenance")).fetchone()
            return None if row is None else json.loads(row[0])
    except (OSError, ValueError, pa.ArrowException, duckdb.CatalogException):
        return None


@contextmanager
def reading_scores(output: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection in which the `scores` table is the output. Temporary files are in the output's folder."""
    if output.suffix == ".parquet":
        with duckdb.connect(config=SCORES_SETTINGS | {"temp_directory": str(spill_of(output))}) as connection:
            connection.read_parquet(literal(output)).create_view("scores")
            yield connection
    else:
        with connected(output) as connection:
            yield connection


@contextmanager
def connected(database: Path, *, read_only: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to the database. Raise HomeError if another program uses it or if it is not a DuckDB file."""
    try:
        connection = duckdb.connect(
            str(database),
            read_only=read_only,
            config=SCORES_SETTINGS | {"temp_directory": str(spill_of(database))},
        )
    except (duckdb.IOException, duckdb.InvalidInputException) as error:
        raise HomeError(
            f"{database}: cannot be opened: {str(error).splitlines()[0][:200]};\n"
            "close the program that has it open, or give another file as scoring.output (--output)"
        ) from error
    with connection:
        yield connection


def read_shard(path: Path) -> pa.Table:
    """Read a shard.

    The file is opened directly, because Arrow would interpret folder names in a path as partition columns.
    """
    with pq.ParquetFile(path) as file:
        return file.read(use_threads=False)


def write_shard(path: Path, table: pa.Table) -> None:
    """Write a shard atomically. Its compression is fast, because the file is temporary."""
    with atomic_file(path) as partial:
        pq.write_table(table, partial, compression="lz4", use_dictionary=REPEATED_TEXTS)


def spill_of(output: Path) -> Path:
    return output.parent / f"{partial_beginning(output)}spilled"


def unwritable(output: Path, error: OSError) -> HomeError:
    return HomeError(f"{output}: cannot be written ({error.strerror or error}); give another scoring.output (--output)")
