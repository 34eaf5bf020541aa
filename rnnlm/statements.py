"""SQL lives in sql/, one statement a file; Python reads it by name."""

from functools import cache
from pathlib import Path
from typing import Any

import duckdb

SQL = Path(__file__).resolve().parent.parent / "sql"
Rows = list[dict[str, Any]]  # a table: column → value


@cache
def statement(name: str) -> str:
    """The text of sql/<name>.sql, such as statement("queries/read_split")."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def names(room: str) -> list[str]:
    """All statements of a room of sql/, such as "checks/bos_is_never_predicted", in order of name."""
    return [f"{room}/{path.stem}" for path in sorted((SQL / room).glob("*.sql"))]


def table(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any]) -> Rows:
    """What the statement finds."""
    found = connection.execute(statement(name), parameters)
    columns = [column[0] for column in found.description or []]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
