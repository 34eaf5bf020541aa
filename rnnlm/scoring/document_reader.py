"""The documents of the inputs, one after the other, and gathered to shards. Memory holds a shard, not the input."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from duckdb import ColumnExpression

from rnnlm.config import CorpusConfig
from rnnlm.corpora.file_formats import Opener, SourceFile
from rnnlm.corpora.splits import paragraphs
from rnnlm.corpora.text_encoding import single_lines
from rnnlm.errors import CorpusError
from rnnlm.scoring.input_files import InputFile
from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.sql_statements import literal, statement

SHARD_CHARACTERS = 2 << 20  # a shard ends with the document that reaches so many, however few documents it holds
ROWS_AT_ONCE = 1_024  # of a table
# DuckDB's, while it reads. One thread: rows come in the table's order, and the other cores are torch's.
READING: dict[str, Any] = {
    "memory_limit": "512MiB",
    "threads": 1,
    "preserve_insertion_order": True,
    "autoinstall_known_extensions": False,  # they come over the network
    "autoload_known_extensions": False,
}


class Document(NamedTuple):
    number: int  # from 0, over all inputs
    source: str  # the file
    place: int  # from 0, within the file: its line, paragraph or row
    id: str | None
    text: str | None  # None: the table has no text there


class Cell(NamedTuple):
    id: str | None
    text: str | None


def documents(files: list[InputFile], config: ScoringConfig) -> Iterator[Document]:
    """All documents of the files in their order: the same ones every time, as long as the files are the same.

    CorpusError where a file cannot be read, or lacks a column.
    """
    number = 0
    for file in files:
        cells = text_cells(file.path, config) if file.kind == "text" else table_cells(file, config)
        for place, cell in enumerate(cells):
            yield Document(number, str(file.path), place, cell.id, cell.text)
            number += 1


def in_shards(found: Iterator[Document], config: ScoringConfig) -> Iterator[list[Document]]:
    """Consecutive documents, shard_documents of them or SHARD_CHARACTERS. A single document is never cut."""
    shard: list[Document] = []
    characters = 0
    for document in found:
        shard.append(document)
        characters += len(document.text or "")
        if len(shard) == config.shard_documents or characters >= SHARD_CHARACTERS:
            yield shard
            shard, characters = [], 0
    if shard:
        yield shard


def text_cells(path: Path, config: ScoringConfig) -> Iterator[Cell]:
    """A document a line, or a paragraph as the corpus's own documents are: up to the blank lines after it, or 50 lines.

    Compressed files are read as they are. Bytes that are no UTF-8 become U+FFFD: scores are there to find such text.
    """
    with tempfile.TemporaryDirectory(prefix="rnnlm-score-") as scratch:
        opener = Opener(str(path), CorpusConfig(format="text", undecodable="replace"), Path(scratch))
        lines = single_lines(opener.pieces_of_file(SourceFile(path, str(path), path.name)))
        if config.document == "line":
            yield from (Cell(None, line) for line in lines)
        else:
            yield from (Cell(None, data.decode("utf-8")) for data in paragraphs(line.encode("utf-8") for line in lines))


def table_cells(file: InputFile, config: ScoringConfig) -> Iterator[Cell]:
    """A document a row of a table, or of the configured query's answer, in its order."""
    wanted = [config.column] + ([config.id_column] if config.id_column else [])
    with opened(file) as connection:
        as_text = [ColumnExpression(column).cast("varchar").alias(f"c{i}") for i, column in enumerate(wanted)]
        for batch in relation(connection, file, config, wanted).select(*as_text).to_arrow_reader(ROWS_AT_ONCE):
            texts, *ids = (column.to_pylist() for column in batch.columns)
            for row, text in enumerate(texts):
                yield Cell(ids[0][row] if ids else None, text)


def answer(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    """What the query answers: one select over the database's own tables. CorpusError for anything else.

    The configuration is locked first: no other file, no network, no extension, no variable of this program.
    """
    for name in ("scoring/lock_replacements", "scoring/lock_access", "scoring/lock_configuration"):
        connection.execute(statement(name))
    statements = connection.extract_statements(query)
    kinds = [found.type for found in statements]
    if kinds != [duckdb.StatementType.SELECT]:
        names = ", ".join(kind.name.lower() for kind in kinds) or "nothing"
        raise CorpusError(f"scoring.query: {query[:80]!r} is {names}; expected one select")
    return connection.sql(query)


@contextmanager
def opened(file: InputFile) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection, to the file itself where that is a database. CorpusError with what DuckDB says of any trouble."""
    database, read_only = (str(file.path), True) if file.kind == "query" else (":memory:", False)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="rnnlm-score-") as spill,
            duckdb.connect(database, read_only=read_only, config=READING | {"temp_directory": spill}) as connection,
        ):
            yield connection
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow passes on what DuckDB says while it reads
        said = str(error).strip().splitlines()[0][:300]
        hint = "mend scoring.query (--query)" if file.kind == "query" else "mend the file"
        raise CorpusError(f"{file.path}: cannot be read as {file.kind}: {said}; {hint}") from error


def relation(
    connection: duckdb.DuckDBPyConnection, file: InputFile, config: ScoringConfig, wanted: list[str]
) -> duckdb.DuckDBPyRelation:
    """The table or the query's answer, which has the wanted columns; read as it is asked for."""
    path = literal(file.path)
    if file.kind == "query":
        assert config.query is not None  # ScoringConfig sees to it
        found = answer(connection, config.query)
    elif file.kind == "parquet":
        found = connection.read_parquet(path)
    elif file.kind == "jsonl":
        found = connection.read_json(path, format="newline_delimited")
    else:
        found = connection.read_csv(path, header=True, all_varchar=True, sep="," if file.kind == "csv" else "\t")
    for column in wanted:
        if column not in found.columns:
            raise CorpusError(
                f"{file.path}: has no column {column!r}; it has: {', '.join(found.columns[:10])};\n"
                "name the text's as scoring.column (--column), that of the ids as scoring.id_column (--id-column)"
            )
    if file.kind == "jsonl":  # again, now that they are known to be there: as text, whatever the first rows look like
        columns = dict.fromkeys(wanted, "varchar")
        found = connection.read_json(path, format="newline_delimited", columns=columns)
    return found
