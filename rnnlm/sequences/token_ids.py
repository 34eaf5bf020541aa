"""How wide a token id is stored, and how rows reach a DuckDB file: one rule for every file of ours."""

import duckdb
import pyarrow as pa

from rnnlm.sql_statements import statement

NARROW_VOCABULARY = 65_536  # ids that fit two bytes


def token_type(vocabulary_size: int) -> pa.DataType:
    """The narrowest unsigned type that holds every id."""
    return pa.uint16() if vocabulary_size <= NARROW_VOCABULARY else pa.uint32()


def create_token_type(connection: duckdb.DuckDBPyConnection, vocabulary_size: int) -> None:
    """The type `token_id` of a new file."""
    narrow = vocabulary_size <= NARROW_VOCABULARY
    connection.execute(statement("schema/token_id" if narrow else "schema/token_id_wide"))


def insert(
    connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table, parameters: dict[str, str] | None = None
) -> None:
    """Run the statement `name`, which inserts from `incoming`, over the table."""
    connection.register("incoming", table)
    connection.execute(statement(name), parameters or {})
    connection.unregister("incoming")
