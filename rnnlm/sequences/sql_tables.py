"""Access to DuckDB tables of datasets: queries by name, insertion from Arrow, and the type of token ids."""

from typing import Any

import duckdb
import pyarrow as pa

from rnnlm.storage.sql_statements import statement

NARROW_VOCABULARY = 65_536  # The largest vocabulary whose token ids fit into two bytes.


def table(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the result of a statement in sql/, as a list of rows."""
    found = connection.execute(statement(name), parameters)
    columns = [column[0] for column in found.description or []]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def insert(
    connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table, parameters: dict[str, str] | None = None
) -> None:
    """Run a statement that inserts `rows`. The statement reads the rows from a table named `incoming`."""
    connection.register("incoming", rows)
    connection.execute(statement(name), parameters or {})
    connection.unregister("incoming")


def token_type(vocabulary_size: int) -> pa.DataType:
    """Return the narrowest unsigned type that can represent every token id."""
    return pa.uint16() if vocabulary_size <= NARROW_VOCABULARY else pa.uint32()


def create_token_type(connection: duckdb.DuckDBPyConnection, vocabulary_size: int) -> None:
    """Create the SQL type `token_id`, suitable for the vocabulary, in a new file."""
    narrow = vocabulary_size <= NARROW_VOCABULARY
    connection.execute(statement("schema/token_id" if narrow else "schema/token_id_wide"))
