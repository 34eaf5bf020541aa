"""A statement of sql/ asked of a database, and its answer as a table."""

from typing import Any

import duckdb

from rnnlm.sql_statements import statement

Rows = list[dict[str, Any]]  # a table: column → value


def table(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any]) -> Rows:
    """What the statement finds."""
    found = connection.execute(statement(name), parameters)
    columns = [column[0] for column in found.description or []]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
