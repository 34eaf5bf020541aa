"""Read the documents of the inputs one by one, and group them into shards.

At most one shard is in memory at a time.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from duckdb import ColumnExpression

from rnnlm.corpora.parquet_tables import decoded
from rnnlm.corpora.splits import paragraphs
from rnnlm.corpora.table_cells import NoColumnError, cell_text
from rnnlm.corpora.text_encoding import Decoding, single_lines, sound_text
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.input_files import InputFile, file_reader
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.sequences.corpus_shards import SHARD_BYTES, shard_bytes
from rnnlm.sequences.dataset_parts import locate_parts
from rnnlm.storage.sql_statements import literal, statement

SHARD_CHARACTERS = 2 << 20  # The number of characters above which a shard ends after the current document.
LARGEST_GROWTH = 16
TABLE_ROWS_AT_ONCE = 1_024
COLUMN_HINT = "give the text column as scoring.column (--column), the id column as scoring.id_column (--id-column)"
# Settings of DuckDB. A single thread returns rows in the table's order, and leaves the other cores to torch.
READ_SETTINGS: dict[str, Any] = {
    "memory_limit": "512MiB",
    "threads": 1,
    "preserve_insertion_order": True,
    "autoinstall_known_extensions": False,  # DuckDB must not download extensions.
    "autoload_known_extensions": False,
}


class InputDocument(NamedTuple):
    number: int  # The number of the document, counted from 0 over all input files.
    source: str  # The file that contains the document.
    place: int  # The number of the line, paragraph or row within the file, from 0.
    id: str | None
    text: str | None  # The document's text, or None for a null in the table.


INPUT_SCHEMA = pa.schema(  # The schema has a column for each field of InputDocument.
    [("number", pa.int64()), ("source", pa.string()), ("place", pa.int64()), ("id", pa.string()), ("text", pa.string())]
)
Cell = tuple[str | None, str | None]  # A pair of a document's id and its text.


def read_documents(files: Iterable[InputFile], config: ScoringConfig) -> Iterator[InputDocument]:
    """Yield all documents of the files, always in the same order.

    Raise CorpusError if a file is unreadable or lacks a column.
    """
    number = 0
    for file in files:
        if file.kind == "text":
            cells = text_cells(file, config)
        else:
            cells = query_cells(file, config) if file.kind == "query" else table_cells(file, config)
        for place, (id, text) in enumerate(cells):
            yield InputDocument(number, file.label, place, id, text)
            number += 1


def shard_growth(input_bytes: int) -> int:
    """Return the factor by which an input's shards are larger than those of a small input.

    The factor is 2 for an input of 1 GiB and 16 for 64 GiB. A large input is therefore divided into thousands of shards
    and not millions. The factor has an upper limit, because each shard must fit into memory.
    """
    return max(1, min(LARGEST_GROWTH, shard_bytes(input_bytes) // SHARD_BYTES))


def in_shards(found: Iterator[InputDocument], config: ScoringConfig, growth: int = 1) -> Iterator[pa.Table]:
    """Yield shards of consecutive whole documents, as tables of INPUT_SCHEMA.

    A shard ends after shard_documents documents or about SHARD_CHARACTERS characters. Each limit is multiplied by
    `growth`.
    """
    shard: list[InputDocument] = []
    characters = 0
    for document in found:
        shard.append(document)
        characters += len(document.text or "")
        if len(shard) == growth * config.shard_documents or characters >= growth * SHARD_CHARACTERS:
            yield documents_table(shard)
            shard, characters = [], 0
    if shard:
        yield documents_table(shard)


def documents_table(documents: Sequence[InputDocument]) -> pa.Table:
    """Return the documents as a table of INPUT_SCHEMA."""
    columns = zip(*documents, strict=True) if documents else [()] * len(INPUT_SCHEMA)
    return pa.table([*map(pa.array, columns, INPUT_SCHEMA.types)], schema=INPUT_SCHEMA)


def text_cells(file: InputFile, config: ScoringConfig) -> Iterator[Cell]:
    """Yield one document for each line or paragraph, as in a corpus."""
    with file_reader(file) as reader:
        lines = single_lines(reader.pieces_of_file(reader.files[0]))
        if config.document == "line":
            yield from ((None, line) for line in lines)
        else:
            yield from ((None, data.decode("utf-8")) for data in paragraphs(line.encode("utf-8") for line in lines))


def table_cells(file: InputFile, config: ScoringConfig) -> Iterator[Cell]:
    """Yield one document for each row of a table, in the order of the rows.

    For nested objects or structs, the name of a column is a path such as `data.body`.
    """
    wanted = [config.column] + ([config.id_column] if config.id_column else [])
    try:
        for text, *ids in table_rows(file, wanted):
            yield ids[0] if ids else None, text
    except NoColumnError as error:
        raise CorpusError(f"{error.problem};\n{COLUMN_HINT}") from None


def table_rows(file: InputFile, columns: list[str]) -> Iterator[tuple[str | None, ...]]:
    """Yield the cells of the given columns for each row, as text. Raise NoColumnError if the table lacks a column."""
    with file_reader(file) as reader, reader.opener.outermost(reader.files[0]) as table:
        for where, cells in reader.rows(table, file.kind, columns, sparse=True):
            texts = (cell_text(cell, where) for cell in cells)
            yield tuple(text and sound_text(text, file.label, reader.decoding) for text in texts)


def query_cells(file: InputFile, config: ScoringConfig) -> Iterator[Cell]:
    """Yield one document for each row of the configured query's result, in the order of the rows.

    NUL becomes U+FFFD, as in text files.
    """
    wanted = [config.column] + ([config.id_column] if config.id_column else [])
    with open_database(file.path) as connection:
        assert config.query is not None  # ScoringConfig has checked that a query is given for a database.
        found = run_query(connection, config.query)
        for column in wanted:
            if column not in found.columns:
                there = ", ".join(found.columns[:10])
                raise CorpusError(f"{file.path}: expected a column {column!r}, found {there};\n{COLUMN_HINT}")
        types = dict(zip(found.columns, map(str, found.types), strict=True))
        columns = [
            ColumnExpression(column).cast("blob" if types[column] == "BLOB" else "varchar").alias(f"c{i}")
            for i, column in enumerate(wanted)
        ]
        decoding = Decoding(undecodable="guess")
        for batch in found.select(*columns).to_arrow_reader(TABLE_ROWS_AT_ONCE):
            texts, *ids = (
                [
                    decoded(cell, file.label, decoding) if isinstance(cell, bytes) else cell
                    for cell in column.to_pylist()
                ]
                for column in batch.columns
            )
            for row, text in enumerate(texts):
                yield ids[0][row] if ids else None, text and text.replace("\x00", "\ufffd")


def run_query(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    """Return the result of a query, which must be a single select on tables of this database.

    Raise CorpusError for any other query. The database's configuration is locked before the query runs. The query
    cannot read files other than a dataset's parts, nor use the network, extensions or Python variables of this program.
    """
    for name in ("scoring/lock_replacements", "scoring/lock_access", "scoring/lock_configuration"):
        connection.execute(statement(name))
    statements = connection.extract_statements(query)
    kinds = [found.type for found in statements]
    if kinds != [duckdb.StatementType.SELECT]:
        names = ", ".join(kind.name.lower() for kind in kinds) or "nothing"
        raise CorpusError(f"scoring.query: expected one select, found {names}: {query[:80]!r}")
    return connection.sql(query)


def allow_parts(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Let queries read `shifted_sequences` of a large dataset, which is a view of the files in folder/parts."""
    locate_parts(connection, folder)
    # Both spellings of the path are allowed, because DuckDB compares file names with the escaped ones in the view.
    allowed = sorted({str(folder / "parts"), literal(folder / "parts")})
    connection.execute(statement("scoring/allow_parts"), {"folders": allowed})


@contextmanager
def open_database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection for one query. Raise CorpusError with DuckDB's message if reading fails."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="rnnlm-score-") as spill,
            duckdb.connect(str(path), read_only=True, config=READ_SETTINGS | {"temp_directory": spill}) as connection,
        ):
            allow_parts(connection, path.resolve().parent)
            yield connection
    # Arrow raises errors of its own types in place of DuckDB's errors.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        cause = str(error).strip().splitlines()[0][:300]
        raise CorpusError(f"{path}: the query failed: {cause};\ncorrect scoring.query (--query)") from error
